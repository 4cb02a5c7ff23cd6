//! A list of things to do as a few lines for a person.

use super::view::head;
use crate::wire::todo::{Todo, TodoStatus};
use anstyle::Style;

/// Open items that are shown; what is done is only counted.
const SHOWN: usize = 6;

/// How far it is, then what is being done and what comes next.
pub fn lines(todos: &[Todo]) -> Vec<String> {
    let (dim, bold) = (Style::new().dimmed(), Style::new().bold());
    let open: Vec<&Todo> = todos.iter().filter(|todo| todo.status != TodoStatus::Completed).collect();
    let done = todos.len() - open.len();
    if todos.is_empty() {
        return vec![format!("{dim}to do: nothing{dim:#}")];
    }
    let mut lines = vec![format!("{dim}to do: {done} of {} done{dim:#}", todos.len())];
    lines.extend(open.iter().take(SHOWN).map(|todo| match todo.status {
        TodoStatus::InProgress => format!("  {bold}▸ {}{bold:#}", head(todo.shown())),
        TodoStatus::Pending | TodoStatus::Completed => format!("  {dim}▫{dim:#} {}", head(todo.shown())),
    }));
    if open.len() > SHOWN {
        lines.push(format!("  {dim}… and {} more{dim:#}", open.len() - SHOWN));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn todo(content: &str, status: TodoStatus) -> Todo {
        Todo { content: content.to_owned(), status, active_form: format!("{content}ing") }
    }

    fn plain(todos: &[Todo]) -> Vec<String> {
        lines(todos).iter().map(|line| anstream::adapter::strip_str(line).to_string()).collect()
    }

    #[test]
    fn a_list_is_short_and_steers_nothing() {
        let mut todos = vec![
            todo("look", TodoStatus::Completed),
            todo("fix\u{1b}[2J\nall", TodoStatus::InProgress),
            todo("test", TodoStatus::Pending),
        ];
        let wanted = ["to do: 1 of 3 done", "  ▸ fix\\u{1b}[2J", "  ▫ test"];
        assert_eq!(plain(&todos), wanted);
        todos.extend((0..7).map(|n| todo(&n.to_string(), TodoStatus::Pending)));
        assert_eq!(plain(&todos).last().map(String::as_str), Some("  … and 3 more"));
        assert_eq!(plain(&[]), ["to do: nothing"]);
        assert_eq!(plain(&todos[..1]), ["to do: 1 of 1 done"]);
    }
}
