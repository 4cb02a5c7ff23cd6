//! Asks that one answer may serve: several agents that want the same call in the same directory.

use crate::wire::ask::Ask;

/// Places of asks of which each may get the same answer, the groups in the order of their first.
pub fn groups(asks: &[&Ask]) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for (index, ask) in asks.iter().enumerate() {
        match groups.iter_mut().find(|group| asks[group[0]].is_same(ask)) {
            Some(group) => group.push(index),
            None => groups.push(vec![index]),
        }
    }
    groups
}

/// `anna`, `anna and ben`, `anna, ben and 3 others`.
pub fn together(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        [one, two] => format!("{one} and {two}"),
        [one, two, three] => format!("{one}, {two} and {three}"),
        [one, two, others @ ..] => format!("{one}, {two} and {} others", others.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::ask_dialog::tests::ask;
    use crate::wire::ask::AskKind;
    use serde_json::json;

    #[test]
    fn the_same_call_in_the_same_place_is_one_group() {
        let read = |path: &str| ask("Read", json!({ "file_path": path, "limit": 5 }));
        let mut again = read("/a");
        again.input = serde_json::value::RawValue::from_string(r#"{ "limit":5, "file_path":"/a" }"#.into())
            .expect("JSON");
        let mut elsewhere = read("/a");
        elsewhere.cwd = "/other".into();
        let mut question = ask("Read", json!({ "file_path": "/a", "limit": 5 }));
        question.kind = AskKind::Question;
        let all = [read("/a"), read("/b"), again, elsewhere, question.clone(), question, read("/b")];
        let all: Vec<&Ask> = all.iter().collect();
        assert_eq!(groups(&all), [vec![0, 2], vec![1, 6], vec![3], vec![4], vec![5]]);
    }

    #[test]
    fn names_are_told_up_to_three() {
        let names = |count: usize| -> Vec<String> { (1..=count).map(|n| format!("a{n}")).collect() };
        let told: Vec<String> = [1, 2, 3, 5].map(|count| together(&names(count))).into();
        assert_eq!(told, ["a1", "a1 and a2", "a1, a2 and a3", "a1, a2 and 3 others"]);
    }
}
