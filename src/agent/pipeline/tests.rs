//! What a call is given beside its input.

use super::*;
use crate::agent::testing::Bench;
use crate::wire::permission::{Rule, RuleSource};

#[tokio::test]
async fn rules_about_files_are_worked_out_when_a_search_asks() {
    let bench = Bench::new("").await;
    let core = Arc::clone(bench.main.core());
    let rule =
        |text: &str| Rule { text: text.to_owned(), behavior: Behavior::Deny, source: RuleSource::Session };
    let root = core.permissions.project[0].clone();
    let kept = kept_back(Arc::clone(&core));
    core.permissions.add_rules([rule("Read(.env)")]);
    assert!(kept(&root.join(".env")) && !kept(&root.join("other")));
    // One search holds all its files against the same rules.
    core.permissions.add_rules([rule("Read(other)")]);
    assert!(!kept(&root.join("other")));
}
