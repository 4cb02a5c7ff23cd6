//! Where the next pane goes, as a pure function of the panes that are there.
//!
//! Owns the readable minimum of a pane and the shape of a team's window: the leader left, its
//! teammates in a column on the right, more of them in windows of their own. Promises that only the
//! leader's pane and our own panes are ever split, and that no existing split is moved: a new pane
//! takes its cells from the one pane it splits, so what the user resized stays as it is.

/// Fewest rows of a pane that can still be read: a prompt, a status line and some output.
pub const MIN_ROWS: u32 = 10;
/// Fewest columns of a teammate's pane; below them, lines of code and diffs wrap.
pub const MIN_COLUMNS: u32 = 60;
/// Fewest columns that may be left to the leader.
pub const MIN_LEADER_COLUMNS: u32 = 60;

/// A pane as far as its place matters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PaneBox {
    /// Its id.
    pub id: String,
    /// The id of its window.
    pub window: String,
    /// Columns.
    pub width: u32,
    /// Rows.
    pub height: u32,
    /// True for a visible pane of a teammate of this team.
    pub ours: bool,
}

/// The side of the split pane on which the new one appears.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// To the right, with so many columns.
    Right,
    /// Below, with so many rows.
    Below,
}

/// Where the next pane goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// Into a part of an existing pane.
    Split {
        /// The pane that gives up cells.
        pane: String,
        /// On which side of it.
        side: Side,
        /// How many of its columns or rows.
        cells: u32,
    },
    /// Into a window of its own.
    Window,
}

/// Chooses a place beside `leader` (a pane id), or among our own panes when there is none.
pub fn place(panes: &[PaneBox], leader: Option<&str>) -> Place {
    let leader = leader.and_then(|id| panes.iter().find(|pane| pane.id == id));
    let beside = leader.and_then(|leader| place_beside(panes, leader));
    let elsewhere = || {
        let window = leader.map(|leader| leader.window.as_str());
        let ours = panes.iter().filter(|pane| pane.ours && Some(pane.window.as_str()) != window);
        ours.filter_map(|pane| Some((area(pane), halve(pane)?))).max_by_key(|(area, _)| *area)
    };
    beside.or_else(|| elsewhere().map(|(_, split)| split)).unwrap_or(Place::Window)
}

fn place_beside(panes: &[PaneBox], leader: &PaneBox) -> Option<Place> {
    let column = || panes.iter().filter(|pane| pane.ours && pane.window == leader.window);
    if column().next().is_some() {
        // The tallest; of equals the one that comes first, so that the column fills from the top.
        let tallest = column().rev().max_by_key(|pane| pane.height)?;
        return halve_rows(tallest);
    }
    if leader.width > MIN_LEADER_COLUMNS + MIN_COLUMNS {
        let cells = ((leader.width - 1) / 2).max(MIN_COLUMNS);
        return Some(Place::Split { pane: leader.id.clone(), side: Side::Right, cells });
    }
    // Too narrow for two columns, as an unattached session of 80 is: one above the other.
    halve_rows(leader)
}

fn halve(pane: &PaneBox) -> Option<Place> {
    if pane.width > 2 * MIN_COLUMNS {
        let cells = (pane.width - 1) / 2;
        return Some(Place::Split { pane: pane.id.clone(), side: Side::Right, cells });
    }
    halve_rows(pane)
}

fn halve_rows(pane: &PaneBox) -> Option<Place> {
    (pane.height > 2 * MIN_ROWS).then(|| Place::Split {
        pane: pane.id.clone(),
        side: Side::Below,
        cells: (pane.height - 1) / 2,
    })
}

fn area(pane: &PaneBox) -> u64 {
    u64::from(pane.width) * u64::from(pane.height)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pane(id: &str, window: &str, width: u32, height: u32, ours: bool) -> PaneBox {
        PaneBox { id: id.to_owned(), window: window.to_owned(), width, height, ours }
    }

    fn split(pane: &str, side: Side, cells: u32) -> Place {
        Place::Split { pane: pane.to_owned(), side, cells }
    }

    #[test]
    fn the_first_teammate_stands_right_of_the_leader() {
        let panes = [pane("%0", "@0", 200, 50, false), pane("%9", "@1", 200, 50, false)];
        assert_eq!(place(&panes, Some("%0")), split("%0", Side::Right, 99));
        let narrow = [pane("%0", "@0", 121, 50, false)];
        assert_eq!(place(&narrow, Some("%0")), split("%0", Side::Right, 60));
    }

    #[test]
    fn a_narrow_window_is_split_below_and_a_tiny_one_not_at_all() {
        let panes = [pane("%0", "@0", 80, 24, false)];
        assert_eq!(place(&panes, Some("%0")), split("%0", Side::Below, 11));
        let tiny = [pane("%0", "@0", 80, 20, false)];
        assert_eq!(place(&tiny, Some("%0")), Place::Window);
    }

    #[test]
    fn the_column_is_split_where_it_is_tallest_and_overflows_below_the_minimum() {
        let mut panes = vec![
            pane("%0", "@0", 100, 50, false),
            pane("%1", "@0", 99, 25, true),
            pane("%2", "@0", 99, 24, true),
        ];
        assert_eq!(place(&panes, Some("%0")), split("%1", Side::Below, 12));
        panes[1].height = 12;
        panes[2].height = 20;
        assert_eq!(place(&panes, Some("%0")), Place::Window);
        panes.push(pane("%7", "@3", 200, 50, true));
        assert_eq!(place(&panes, Some("%0")), split("%7", Side::Right, 99));
    }

    #[test]
    fn without_a_leader_our_own_panes_are_tiled() {
        assert_eq!(place(&[], None), Place::Window);
        let panes = [pane("%1", "@0", 100, 50, true), pane("%2", "@0", 99, 50, true)];
        assert_eq!(place(&panes, None), split("%1", Side::Below, 24));
    }

    #[test]
    fn a_leader_whose_pane_is_gone_gets_a_window() {
        assert_eq!(place(&[pane("%5", "@0", 200, 50, false)], Some("%0")), Place::Window);
    }

    proptest! {
        #[test]
        fn only_the_leader_and_our_panes_are_split_and_stay_readable(
            sizes in proptest::collection::vec((1_u32..300, 1_u32..100, any::<bool>(), 0_u8..3), 0..12)
        ) {
            let panes: Vec<PaneBox> = (0_u32..)
                .zip(sizes)
                .map(|(n, (width, height, ours, window))| {
                    pane(&format!("%{n}"), &format!("@{window}"), width, height, ours && n != 0)
                })
                .collect();
            let Place::Split { pane, side, cells } = place(&panes, Some("%0")) else { return Ok(()) };
            let target = panes.iter().find(|candidate| candidate.id == pane).expect("it is there");
            prop_assert!(target.ours || target.id == "%0");
            let (whole, least) = match side {
                Side::Right => (target.width, MIN_COLUMNS),
                Side::Below => (target.height, MIN_ROWS),
            };
            prop_assert!(cells >= least && whole - cells > least, "{cells} of {whole}");
        }
    }
}
