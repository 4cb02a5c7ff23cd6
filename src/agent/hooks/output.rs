//! What a hook that ended well says on standard output: JSON, or plain text at the two events that take it.

use crate::agent::gates::GateVerdict;
use crate::wire::hooks::HookEvent;
use serde::Deserialize;
use serde_json::value::RawValue;

/// What one hook says.
#[derive(Debug, Default)]
pub(super) struct Said {
    pub verdict: GateVerdict,
    pub stop: Option<String>,
    pub updated_input: Option<Box<RawValue>>,
    pub context: Option<String>,
    pub message: Option<String>,
}

/// The object as it may be written. Members that are not here are nobody's business: hooks are written
/// for more than one program.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Output {
    #[serde(rename = "continue")]
    goes_on: Option<bool>,
    stop_reason: Option<String>,
    decision: Option<String>,
    reason: Option<String>,
    system_message: Option<String>,
    hook_specific_output: Option<Specific>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Specific {
    hook_event_name: Option<String>,
    permission_decision: Option<String>,
    permission_decision_reason: Option<String>,
    updated_input: Option<Box<RawValue>>,
    additional_context: Option<String>,
    decision: Option<Decision>,
}

/// How the answer to a `PermissionRequest` is written elsewhere.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Decision {
    behavior: Option<String>,
    message: Option<String>,
    updated_input: Option<Box<RawValue>>,
}

/// Reads standard output.
///
/// # Errors
/// What is wrong with it, for the person; then nothing of it counts.
pub(super) fn read(event: HookEvent, stdout: &[u8], is_cut: bool) -> Result<Said, String> {
    let text = String::from_utf8_lossy(stdout);
    let text = text.trim();
    if text.starts_with('{') {
        if is_cut {
            return Err("its output is too long and was not read".to_owned());
        }
        let output =
            serde_json::from_str(text).map_err(|error| format!("its output cannot be used: {error}"))?;
        return said(event, output);
    }
    let is_context = matches!(event, HookEvent::UserPromptSubmit | HookEvent::SessionStart);
    let context = Some(text.to_owned()).filter(|text| is_context && !text.is_empty());
    Ok(Said { context, ..Said::default() })
}

fn said(event: HookEvent, output: Output) -> Result<Said, String> {
    let specific = output.hook_specific_output.unwrap_or_default();
    if let Some(other) = specific.hook_event_name.filter(|name| name != event.as_str()) {
        return Err(format!("its output is for {other}"));
    }
    let inner = specific.decision.unwrap_or_default();
    let reason = specific.permission_decision_reason.or(inner.message).or(output.reason);
    let decisions = [output.decision, inner.behavior, specific.permission_decision];
    let verdict = decisions.into_iter().flatten().next_back();
    let verdict = verdict.map_or(Ok(GateVerdict::Pass), |word| verdict_of(&word, reason))?;
    let stops = output.goes_on == Some(false);
    Ok(Said {
        verdict,
        stop: stops.then(|| output.stop_reason.unwrap_or_else(|| "it gives no reason".to_owned())),
        updated_input: specific.updated_input.or(inner.updated_input),
        context: specific.additional_context.filter(|text| !text.trim().is_empty()),
        message: output.system_message.filter(|text| !text.trim().is_empty()),
    })
}

fn verdict_of(word: &str, reason: Option<String>) -> Result<GateVerdict, String> {
    let reason = reason.filter(|text| !text.trim().is_empty());
    let reason = reason.unwrap_or_else(|| "it gives no reason".to_owned());
    match word {
        "allow" | "approve" => Ok(GateVerdict::Allow),
        "ask" => Ok(GateVerdict::Ask(reason)),
        "deny" | "block" => Ok(GateVerdict::Block(reason)),
        other => Err(format!("{other:?} is no decision: allow, deny, ask, block")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn read_all(
        event: HookEvent,
        text: &str,
    ) -> (GateVerdict, Option<String>, Option<String>, Option<String>, Option<String>) {
        let said = read(event, text.as_bytes(), false).expect(text);
        let input = said.updated_input.map(|input| input.get().to_owned());
        (said.verdict, said.stop, input, said.context, said.message)
    }

    #[test]
    fn every_way_to_say_something_is_understood() {
        let block = |why: &str| GateVerdict::Block(why.to_owned());
        let some = |text: &str| Some(text.to_owned());
        let pre = HookEvent::PreToolUse;
        let none = (GateVerdict::Pass, None, None, None, None);
        assert_eq!(read_all(pre, ""), none);
        assert_eq!(read_all(pre, "plain words"), none);
        assert_eq!(read_all(HookEvent::SessionStart, " plain words\n").3, some("plain words"));
        assert_eq!(read_all(HookEvent::UserPromptSubmit, "[1]").3, some("[1]"));
        assert_eq!(read_all(pre, r#"{"suppressOutput":true,"other":1}"#), none);
        assert_eq!(read_all(pre, r#"{"decision":"block","reason":"no"}"#).0, block("no"));
        assert_eq!(read_all(HookEvent::Stop, r#"{"decision":"block"}"#).0, block("it gives no reason"));
        assert_eq!(read_all(pre, r#"{"decision":"approve"}"#).0, GateVerdict::Allow);
        let stops = read_all(pre, r#"{"continue":false,"stopReason":"enough","systemMessage":"hear"}"#);
        assert_eq!(stops, (GateVerdict::Pass, some("enough"), None, None, some("hear")));
        let specific = r#"{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"ask",
            "permissionDecisionReason":"odd","updatedInput":{"n": 1e2},"additionalContext":"more"}}"#;
        let wanted = (GateVerdict::Ask("odd".into()), None, some(r#"{"n": 1e2}"#), some("more"), None);
        assert_eq!(read_all(pre, specific), wanted);
        let request = r#"{"hookSpecificOutput":{"decision":{"behavior":"deny","message":"why"}}}"#;
        assert_eq!(read_all(HookEvent::PermissionRequest, request).0, block("why"));
    }

    #[test]
    fn what_cannot_be_understood_decides_nothing_and_is_said() {
        let wrong = |text: &str| read(HookEvent::PreToolUse, text.as_bytes(), false).expect_err(text);
        assert!(wrong("{").starts_with("its output cannot be used: "));
        assert!(wrong(r#"{"continue":"no"}"#).starts_with("its output cannot be used: "));
        assert_eq!(wrong(r#"{"hookSpecificOutput":{"hookEventName":"Stop"}}"#), "its output is for Stop");
        assert_eq!(wrong(r#"{"decision":"alow"}"#), r#""alow" is no decision: allow, deny, ask, block"#);
        let long = read(HookEvent::PreToolUse, b"{}", true).expect_err("cut");
        assert_eq!(long, "its output is too long and was not read");
    }
}
