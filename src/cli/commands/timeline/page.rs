//! The page: a picture with a row for each agent, and the events in words below it.

use super::story::{Doing, Letter, Mark, Story};
use crate::store::clock;
use crate::wire::event::EventKind;
use crate::wire::ids::{SYSTEM, USER};
use std::fmt::Write as _;
use std::time::SystemTime;

/// Height of a row, and of the axis above them, in pixels.
const ROW: f64 = 46.0;
const AXIS: f64 = 34.0;
/// Where time begins, beside the names.
const LEFT: f64 = 130.0;
/// A second is so wide, in pixels; a gap between two events at least and at most so.
const SECOND: f64 = 24.0;
const NARROWEST: f64 = 10.0;
const WIDEST: f64 = 90.0;

const STYLE: &str = "
:root { color-scheme: light dark; --ink: #1b1b1f; --dim: #70727a; --line: #d9dbe1; --paper: #ffffff;
  --start: #b9bcc6; --work: #2f7de1; --wait: #e0a100; --idle: #e4e6ec; --mail: #7a5bd0; --bad: #d03a3a; --good: #2c9a55; }
@media (prefers-color-scheme: dark) { :root { --ink: #ececf1; --dim: #9a9ca6; --line: #3a3c45; --paper: #17181c;
  --start: #5c5f6b; --idle: #2c2e36; --work: #4f97f5; --mail: #a58bf0; --bad: #f06a6a; --good: #4fc07e; } }
body { background: var(--paper); color: var(--ink); font: 14px/1.5 system-ui, sans-serif; margin: 24px; }
h1 { font-size: 20px; margin: 0 0 4px; } p, figcaption { color: var(--dim); margin: 0 0 12px; }
figure { margin: 0 0 24px; overflow-x: auto; border: 1px solid var(--line); border-radius: 8px; padding: 8px; }
svg text { fill: var(--ink); font: 12px system-ui, sans-serif; } svg .tick { fill: var(--dim); font-size: 10px; }
svg .grid { stroke: var(--line); } .starting { fill: var(--start); } .working { fill: var(--work); }
.waiting { fill: var(--wait); } .idle { fill: var(--idle); } .mail { stroke: var(--mail); fill: none; stroke-width: 1.5; }
.mail.lost { stroke: var(--bad); stroke-dasharray: 3 3; } .sign { font-weight: 700; } .sign.bad { fill: var(--bad); }
.sign.good { fill: var(--good); } .sign.wait { fill: var(--wait); }
.key span { display: inline-block; width: 12px; height: 12px; border-radius: 3px; margin: 0 4px -1px 14px; }
table { border-collapse: collapse; width: 100%; } td { padding: 3px 12px 3px 0; border-top: 1px solid var(--line);
  vertical-align: top; } td:first-child { color: var(--dim); white-space: nowrap; font-variant-numeric: tabular-nums; }
td:nth-child(2) { white-space: nowrap; font-weight: 600; }
";

/// The whole page.
pub(super) fn render(team: &str, story: &Story) -> String {
    let name = escape(team);
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{name}</title>\
         <meta name=\"viewport\" content=\"width=device-width\"><style>{STYLE}</style></head><body>\n<h1>{name}</h1>\n"
    );
    let (Some(first), Some(last)) = (story.times.first(), story.times.last()) else {
        page.push_str("<p>Nothing has happened in this team yet.</p></body></html>\n");
        return page;
    };
    let _ = writeln!(
        page,
        "<p>{} to {} · {} agents · {} messages · {} events</p>",
        clock::of(*first),
        clock::of(*last),
        story.rows.iter().filter(|name| !matches!(name.as_str(), USER | SYSTEM)).count(),
        story.letters.len(),
        story.words.len()
    );
    picture(&mut page, story);
    words(&mut page, story);
    page.push_str("</body></html>\n");
    page
}

/// Where each event is: as far from the one before as time says, long waits cut short.
fn places(times: &[SystemTime]) -> Vec<f64> {
    let mut x = LEFT + 20.0;
    let mut places = Vec::with_capacity(times.len());
    for (at, time) in times.iter().enumerate() {
        if let Some(before) = at.checked_sub(1).and_then(|before| times.get(before)) {
            x += (gap(*before, *time) * SECOND).clamp(NARROWEST, WIDEST);
        }
        places.push(x);
    }
    places
}

fn gap(from: SystemTime, to: SystemTime) -> f64 {
    to.duration_since(from).unwrap_or_default().as_secs_f64()
}

fn middle(row: usize) -> f64 {
    AXIS + ROW * (row as f64 + 0.5)
}

fn picture(page: &mut String, story: &Story) {
    let x = places(&story.times);
    let width = x.last().copied().unwrap_or(LEFT) + 40.0;
    let height = AXIS + ROW * story.rows.len() as f64 + 10.0;
    let _ = writeln!(
        page,
        "<figure><svg role=\"img\" aria-label=\"Timeline: a row for each agent, time from left to right\" \
         width=\"{width:.0}\" height=\"{height:.0}\" viewBox=\"0 0 {width:.0} {height:.0}\">\n\
         <defs><marker id=\"tip\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" \
         orient=\"auto\"><path d=\"M0 0L8 4L0 8z\" fill=\"var(--mail)\"/></marker></defs>"
    );
    axis(page, story, &x, height);
    for (row, agent) in story.rows.iter().enumerate() {
        let y = middle(row);
        let _ = writeln!(
            page,
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{width:.0}\" y1=\"{y}\" y2=\"{y}\"/>\
             <text x=\"8\" y=\"{:.0}\">{}</text>",
            y + 4.0,
            escape(agent.as_str())
        );
    }
    for stretch in &story.stretches {
        let (class, what) = doing(stretch.doing);
        let (from, to) = (x[stretch.from], x[stretch.to]);
        let _ = writeln!(
            page,
            "<rect class=\"{class}\" x=\"{from:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"14\" rx=\"4\">\
             <title>{} {what} for {}</title></rect>",
            middle(stretch.row) - 7.0,
            (to - from).max(2.0),
            escape(story.rows[stretch.row].as_str()),
            span(story.times[stretch.from], story.times[stretch.to]),
        );
    }
    for letter in &story.letters {
        self::letter(page, story, &x, letter);
    }
    for mark in &story.marks {
        sign(page, story, &x, mark);
    }
    page.push_str("</svg>\n<figcaption class=\"key\">");
    for (doing, what) in [
        (Doing::Starting, "starting"),
        (Doing::Working, "working"),
        (Doing::Waiting, "waiting for a person"),
        (Doing::Idle, "idle"),
    ] {
        let variable = match doing {
            Doing::Starting => "start",
            Doing::Working => "work",
            Doing::Waiting => "wait",
            Doing::Idle => "idle",
        };
        let _ = write!(page, "<span style=\"background:var(--{variable})\"></span>{what}");
    }
    page.push_str(" · arrows are messages, dashed ones were not read · long waits are drawn short</figcaption></figure>\n");
}

/// A time above the picture wherever there is room for one.
fn axis(page: &mut String, story: &Story, x: &[f64], height: f64) {
    let mut free = 0.0;
    for (at, place) in x.iter().enumerate() {
        if *place < free {
            continue;
        }
        free = place + 76.0;
        let time = clock::of(story.times[at]);
        let time = time.as_str().get(11..19).unwrap_or_default().to_owned();
        let _ = writeln!(
            page,
            "<line class=\"grid\" x1=\"{place:.1}\" x2=\"{place:.1}\" y1=\"{AXIS}\" y2=\"{height:.0}\" \
             stroke-dasharray=\"1 5\"/><text class=\"tick\" x=\"{place:.1}\" y=\"18\">{time}</text>"
        );
    }
}

fn letter(page: &mut String, story: &Story, x: &[f64], letter: &Letter) {
    let (from, to) = (middle(letter.from), middle(letter.to));
    let begin = x[letter.sent];
    let end = letter.delivered.map_or(begin + 14.0, |at| x[at]);
    let class = if letter.delivered.is_some() { "mail" } else { "mail lost" };
    let bend = (from + to) / 2.0;
    let _ = writeln!(
        page,
        "<path class=\"{class}\" marker-end=\"url(#tip)\" d=\"M{begin:.1} {from:.1}C{begin:.1} {bend:.1} {end:.1} \
         {bend:.1} {end:.1} {to:.1}\"><title>{} → {}: {} ({}){}</title></path>",
        escape(story.rows[letter.from].as_str()),
        escape(story.rows[letter.to].as_str()),
        escape(&letter.summary),
        escape(&letter.kind),
        if letter.delivered.is_some() { "" } else { ", not read" },
    );
}

fn sign(page: &mut String, story: &Story, x: &[f64], mark: &Mark) {
    let (sign, class) = match mark.kind {
        EventKind::Ask => ("?", "wait"),
        EventKind::Decision => ("!", "good"),
        EventKind::Exit => ("■", ""),
        EventKind::Lost | EventKind::Undeliverable | EventKind::Refused | EventKind::Limit => ("✗", "bad"),
        EventKind::Task => ("●", ""),
        EventKind::Fork => ("⑂", ""),
        EventKind::Notice => ("i", "wait"),
        // Seen in the stretches.
        EventKind::Spawn | EventKind::Ready | EventKind::Idle | EventKind::Shutdown => return,
        EventKind::Send | EventKind::Deliver => return,
    };
    let _ = writeln!(
        page,
        "<text class=\"sign {class}\" text-anchor=\"middle\" x=\"{:.1}\" y=\"{:.1}\">{sign}<title>{} {}</title></text>",
        x[mark.at],
        middle(mark.row) - 10.0,
        escape(story.rows[mark.row].as_str()),
        escape(&mark.text)
    );
}

fn doing(doing: Doing) -> (&'static str, &'static str) {
    match doing {
        Doing::Starting => ("starting", "starts"),
        Doing::Working => ("working", "works"),
        Doing::Waiting => ("waiting", "waits for a person"),
        Doing::Idle => ("idle", "is idle"),
    }
}

fn span(from: SystemTime, to: SystemTime) -> String {
    let seconds = gap(from, to);
    match seconds {
        s if s < 60.0 => format!("{s:.1} s"),
        s if s < 3_600.0 => format!("{:.1} min", s / 60.0),
        s => format!("{:.1} h", s / 3_600.0),
    }
}

fn words(page: &mut String, story: &Story) {
    page.push_str("<table>\n");
    for (at, agent, _, text) in &story.words {
        let _ = writeln!(
            page,
            "<tr><td>{}</td><td>{}</td><td>{}</td></tr>",
            clock::of(story.times[*at]).as_str().get(11..23).unwrap_or_default(),
            escape(agent.as_str()),
            escape(text)
        );
    }
    page.push_str("</table>\n");
}

/// Text that is only text in a page.
fn escape(text: &str) -> String {
    text.chars()
        .filter(|c| !c.is_control() || matches!(c, '\n' | '\t'))
        .collect::<String>()
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn time_goes_to_the_right_and_long_waits_are_short() {
        let at = |ms| SystemTime::UNIX_EPOCH + Duration::from_millis(ms);
        let places = places(&[at(0), at(0), at(1_000), at(3_600_000)]);
        let steps: Vec<f64> = places.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert_eq!(steps, [NARROWEST, SECOND, WIDEST]);
    }

    #[test]
    fn nothing_in_a_log_can_leave_its_place_on_the_page() {
        assert_eq!(escape("</title><script>&\"\u{1b}"), "&lt;/title&gt;&lt;script&gt;&amp;&quot;");
        assert!(render("<b>", &Story::default()).contains("<h1>&lt;b&gt;</h1>"));
    }
}
