//! What a person types for an answer to questions, the same at the prompt and at `festoon ask answer`.
//!
//! A number or a label chooses; anything else is the answer in words of one's own. In quotes it is
//! that even when it looks like a number.

use crate::wire::question::{Question, QuestionAnswer};
use serde_json::Value;

/// Reads the answer to one question.
///
/// # Errors
/// A sentence for the person: empty, several where one can be chosen, a number that is no option's.
pub fn one(question: &Question, typed: &str) -> Result<QuestionAnswer, String> {
    let typed = typed.trim();
    if typed.is_empty() {
        return Err("an answer is empty".to_owned());
    }
    let answer = |selected: Vec<String>, text: Option<String>| QuestionAnswer {
        question: question.question.clone(),
        selected,
        text,
    };
    if let Some(own) = quoted(typed) {
        return Ok(answer(Vec::new(), Some(own.to_owned())));
    }
    if let Some(label) = labelled(question, typed) {
        return Ok(answer(vec![label], None));
    }
    let numbers: Option<Vec<usize>> = typed
        .split(|c: char| c == ',' || c.is_whitespace())
        .filter(|part| !part.is_empty())
        .map(|part| part.parse().ok())
        .collect();
    if let Some(numbers) = numbers.filter(|numbers| !numbers.is_empty() && !question.options.is_empty()) {
        return Ok(answer(chosen(question, &numbers)?, None));
    }
    if !question.multi_select {
        return Ok(answer(Vec::new(), Some(typed.to_owned())));
    }
    let (mut selected, mut own) = (Vec::new(), Vec::new());
    for part in typed.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let option = part.parse().ok().map(|number| chosen(question, &[number])).transpose()?;
        match option.and_then(|mut labels| labels.pop()).or_else(|| labelled(question, part)) {
            Some(label) if selected.contains(&label) => {}
            Some(label) => selected.push(label),
            None => own.push(part),
        }
    }
    // Where nothing was chosen, the commas are the sentence's.
    let text = if selected.is_empty() { typed.to_owned() } else { own.join(", ") };
    Ok(answer(selected, Some(text).filter(|text| !text.is_empty())))
}

/// Reads the answers to all questions: one text each, or one text for all, a line or a part between
/// semicolons each. A single question takes all texts together.
///
/// # Errors
/// A sentence for the person.
pub fn all(questions: &[Question], texts: &[String]) -> Result<Vec<QuestionAnswer>, String> {
    let parts: Vec<String> = match (questions, texts) {
        ([_], texts) => vec![texts.join(" ")],
        (_, [text]) if text.trim().contains('\n') => text.trim().lines().map(str::to_owned).collect(),
        (_, [text]) => text.split(';').map(str::to_owned).collect(),
        (_, texts) => texts.to_vec(),
    };
    if parts.len() != questions.len() {
        return Err(format!(
            "there are {} questions and {} answers: give one text for each, in their order",
            questions.len(),
            parts.len()
        ));
    }
    questions.iter().zip(&parts).map(|(question, text)| one(question, text)).collect()
}

/// Reads the answers from JSON: an array in the order of the questions, or an object by question or
/// header; each a text, a number, or an array of them.
///
/// # Errors
/// A sentence for the person.
pub fn from_json(questions: &[Question], json: &str) -> Result<Vec<QuestionAnswer>, String> {
    let value: Value = serde_json::from_str(json).map_err(|e| format!("the answers are not JSON: {e}"))?;
    if let Value::Array(items) = &value
        && items.len() != questions.len()
    {
        return Err(format!("there are {} questions and {} answers", questions.len(), items.len()));
    }
    let read = |(index, question): (usize, &Question)| {
        let item = match &value {
            Value::Array(items) => items.get(index),
            Value::Object(fields) => fields.get(&question.question).or_else(|| fields.get(&question.header)),
            _ => return Err("the answers must be a JSON array or object".to_owned()),
        };
        let item = item.ok_or_else(|| format!("there is no answer to {:?}", question.question))?;
        item_of(question, item)
    };
    questions.iter().enumerate().map(read).collect()
}

fn item_of(question: &Question, item: &Value) -> Result<QuestionAnswer, String> {
    let parts = match item {
        Value::Array(parts) => parts.as_slice(),
        single => std::slice::from_ref(single),
    };
    let mut answer = QuestionAnswer { question: question.question.clone(), selected: Vec::new(), text: None };
    for part in parts {
        match part {
            Value::String(text) => match labelled(question, text) {
                Some(label) => answer.selected.push(label),
                None if answer.text.is_none() && !text.trim().is_empty() => answer.text = Some(text.clone()),
                None => return Err(format!("{text:?} is none of the options of {:?}", question.question)),
            },
            Value::Number(number) => {
                let number = number.as_u64().and_then(|n| usize::try_from(n).ok()).unwrap_or_default();
                answer.selected.extend(chosen(question, &[number])?);
            }
            _ => return Err(format!("the answer to {:?} must be a text or a number", question.question)),
        }
    }
    match answer.selected.len() {
        0 if answer.text.is_none() => Err(format!("the answer to {:?} is empty", question.question)),
        0 | 1 => Ok(answer),
        _ if question.multi_select => Ok(answer),
        _ => Err(only_one(question)),
    }
}

/// The text between quotes.
fn quoted(typed: &str) -> Option<&str> {
    let inner = typed.strip_prefix('"')?.strip_suffix('"')?.trim();
    (!inner.is_empty()).then_some(inner)
}

/// The option with this label, whatever its case.
fn labelled(question: &Question, typed: &str) -> Option<String> {
    let typed = typed.trim().to_lowercase();
    question
        .options
        .iter()
        .find(|option| option.label.trim().to_lowercase() == typed)
        .map(|o| o.label.clone())
}

/// The labels of these options, counted from 1.
fn chosen(question: &Question, numbers: &[usize]) -> Result<Vec<String>, String> {
    if numbers.len() > 1 && !question.multi_select {
        return Err(only_one(question));
    }
    let mut labels = Vec::new();
    for number in numbers {
        let option = number.checked_sub(1).and_then(|index| question.options.get(index));
        let Some(option) = option else {
            return Err(format!(
                "there is no option {number} (1 to {}); in quotes it is an answer of its own: \"{number}\"",
                question.options.len()
            ));
        };
        if !labels.contains(&option.label) {
            labels.push(option.label.clone());
        }
    }
    Ok(labels)
}

fn only_one(question: &Question) -> String {
    format!("only one can be chosen for {:?}", question.question)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::question::QuestionOption;

    fn question(text: &str, labels: &[&str], multi_select: bool) -> Question {
        let option = |label: &&str| QuestionOption { label: (*label).to_owned(), description: String::new() };
        Question {
            question: text.to_owned(),
            header: "H".to_owned(),
            options: labels.iter().map(option).collect(),
            multi_select,
        }
    }

    fn said(selected: &[&str], text: Option<&str>) -> Result<(Vec<String>, Option<String>), String> {
        Ok((selected.iter().map(|s| (*s).to_owned()).collect(), text.map(str::to_owned)))
    }

    fn read(question: &Question, typed: &str) -> Result<(Vec<String>, Option<String>), String> {
        one(question, typed).map(|answer| (answer.selected, answer.text))
    }

    #[test]
    fn numbers_and_labels_choose_and_the_rest_is_said() {
        let single = question("Which?", &["Postgres", "SQLite", "No"], false);
        for (typed, expected) in [
            ("2", said(&["SQLite"], None)),
            (" postgres ", said(&["Postgres"], None)),
            ("no", said(&["No"], None)),
            ("neither, a file", said(&[], Some("neither, a file"))),
            ("\"2\"", said(&[], Some("2"))),
            ("1,2", Err("only one can be chosen for \"Which?\"".to_owned())),
            ("", Err("an answer is empty".to_owned())),
        ] {
            assert_eq!(read(&single, typed), expected, "{typed}");
        }
        assert!(read(&single, "7").is_err_and(|why| why.contains("no option 7 (1 to 3)")));
        let several = question("Which?", &["A", "B", "C"], true);
        for (typed, expected) in [
            ("1 3", said(&["A", "C"], None)),
            ("3,1,3", said(&["C", "A"], None)),
            ("b, and speed", said(&["B"], Some("and speed"))),
            ("nothing, really", said(&[], Some("nothing, really"))),
        ] {
            assert_eq!(read(&several, typed), expected, "{typed}");
        }
        assert_eq!(read(&question("Port?", &[], false), "8080"), said(&[], Some("8080")));
    }

    #[test]
    fn several_questions_take_several_texts_lines_or_parts() {
        let two = [question("One?", &["A", "B"], false), question("Two?", &[], false)];
        let texts = |texts: &[&str]| texts.iter().map(|t| (*t).to_owned()).collect::<Vec<_>>();
        let expected = vec!["B".to_owned(), "own words".to_owned()];
        for given in [vec!["2", "own words"], vec!["2; own words"], vec!["2\nown words\n"]] {
            let read = all(&two, &texts(&given)).map(|all| all.iter().map(QuestionAnswer::words).collect());
            assert_eq!(read, Ok(expected.clone()), "{given:?}");
        }
        assert!(
            all(&two, &texts(&["2"]))
                .is_err_and(|why| why.starts_with("there are 2 questions and 1 answers"))
        );
        let joined = all(&two[1..], &texts(&["own", "words"]));
        assert_eq!(joined.map(|all| all[0].words()), Ok("own words".to_owned()));
    }

    #[test]
    fn json_answers_by_place_or_by_name() {
        let two = [question("One?", &["A", "B"], true), question("Two?", &["X"], false)];
        let words = |json: &str| {
            from_json(&two, json).map(|all| all.iter().map(QuestionAnswer::words).collect::<Vec<_>>())
        };
        let expected = Ok(vec!["A; B".to_owned(), "y".to_owned()]);
        assert_eq!(words(r#"[["a", 2], "y"]"#), expected);
        assert_eq!(words(r#"{"One?": [1, "B"], "Two?": "y"}"#), expected);
        for wrong in ["[1]", "{}", "7", "x", r#"[[], "y"]"#, r#"[1, [1, 1]]"#, "[9, 1]", "[true, 1]"] {
            assert!(words(wrong).is_err(), "{wrong}");
        }
    }
}
