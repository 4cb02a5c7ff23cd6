//! Tool calls put together from their pieces.
//!
//! The wire says: a call has an index, its first piece brings id and name, the others a piece of the
//! input. Servers leave out the index or the id, give all calls the same one, bring each call whole, or
//! repeat the name with every piece; all of these are told apart here.

use super::delta::CallDelta;
use crate::model::bounds::PIECE_BYTES;
use crate::model::calls::is_object;

/// A call so far.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Call {
    index: Option<u64>,
    /// As the server gave it; may be empty.
    pub(super) id: String,
    /// The name on the wire.
    pub(super) name: String,
    /// The input as the model wrote it.
    pub(super) input: String,
}

/// The calls of one answer, in the order in which they began.
#[derive(Debug, Default)]
pub(super) struct Calls {
    list: Vec<Call>,
    size: usize,
}

impl Calls {
    /// Takes a piece; gives the call's name when it is first known.
    pub(super) fn add(&mut self, delta: &CallDelta) -> Option<&str> {
        let function = delta.function.as_ref();
        let id = delta.id.as_deref().unwrap_or_default();
        let name = function.and_then(|f| f.name.as_deref()).unwrap_or_default();
        let input = function.map(super::delta::Function::written).unwrap_or_default();
        let at = match self.place(delta.index, id, name, &input) {
            Some(at) => at,
            None => {
                self.list.push(Call { index: delta.index, ..Call::default() });
                self.size += PIECE_BYTES;
                self.list.len() - 1
            }
        };
        let call = self.list.get_mut(at)?;
        if call.id.is_empty() {
            id.clone_into(&mut call.id);
            self.size += id.len();
        }
        self.size += input.len();
        call.input.push_str(&input);
        let new = call.name.is_empty();
        if new || call.name != name {
            call.name.push_str(name);
            self.size += name.len();
        }
        (new && !name.is_empty()).then_some(call.name.as_str())
    }

    /// The call that a piece belongs to; `None` when it begins another.
    fn place(&self, index: Option<u64>, id: &str, name: &str, input: &str) -> Option<usize> {
        let find = |same: &dyn Fn(&Call) -> bool| self.list.iter().rposition(same);
        let at = match index {
            Some(_) => find(&|call| call.index == index)?,
            None if !id.is_empty() => match find(&|call| call.id == id) {
                Some(at) => return Some(at),
                None if name.is_empty() => self.list.len().checked_sub(1)?,
                None => return None,
            },
            None => self.list.len().checked_sub(1)?,
        };
        let call = self.list.get(at)?;
        // A name marks a beginning when the call has another id, or was already brought whole.
        let other = !id.is_empty() && !call.id.is_empty() && call.id != id;
        let begins = !name.is_empty() && (other || (!input.is_empty() && is_object(&call.input)));
        (!begins).then_some(at)
    }

    /// How many bytes they take, about.
    pub(super) fn size(&self) -> usize {
        self.size
    }

    /// All of them.
    pub(super) fn into_list(self) -> Vec<Call> {
        self.list
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calls(pieces: &[&str]) -> Vec<(String, String, String)> {
        let mut calls = Calls::default();
        for piece in pieces {
            calls.add(&serde_json::from_str(piece).expect("a piece"));
        }
        calls.into_list().into_iter().map(|c| (c.id, c.name, c.input)).collect()
    }

    fn want(list: &[(&str, &str, &str)]) -> Vec<(String, String, String)> {
        list.iter().map(|(a, b, c)| ((*a).to_owned(), (*b).to_owned(), (*c).to_owned())).collect()
    }

    #[test]
    fn pieces_find_their_call_whatever_the_server_leaves_out() {
        let two = want(&[("a", "Read", r#"{"x":1}"#), ("b", "Grep", r#"{"y":2}"#)]);
        for pieces in [
            // As the wire has it, interleaved.
            &[
                r#"{"index":0,"id":"a","type":"function","function":{"name":"Read","arguments":""}}"#,
                r#"{"index":1,"id":"b","function":{"name":"Grep","arguments":"{\"y\""}}"#,
                r#"{"index":0,"function":{"arguments":"{\"x\":1}"}}"#,
                r#"{"index":1,"id":null,"function":{"name":null,"arguments":":2}"}}"#,
            ][..],
            // No index: the id tells, or the order.
            &[
                r#"{"id":"a","function":{"name":"Read","arguments":"{\"x\""}}"#,
                r#"{"function":{"arguments":":1}"}}"#,
                r#"{"id":"b","function":{"name":"Grep","arguments":"{\"y\""}}"#,
                r#"{"id":"b","function":{"arguments":":2}"}}"#,
            ],
            // The same index for all, each whole.
            &[
                r#"{"index":0,"id":"a","function":{"name":"Read","arguments":"{\"x\":1}"}}"#,
                r#"{"index":0,"id":"b","function":{"name":"Grep","arguments":"{\"y\":2}"}}"#,
            ],
            // The name again with every piece, the input as a value, an id that changes.
            &[
                r#"{"index":0,"id":"a","function":{"name":"Read","arguments":"{\"x\""}}"#,
                r#"{"index":0,"id":"a","function":{"name":"Read","arguments":":1}"}}"#,
                r#"{"index":0,"id":"a","function":{"name":"Read","arguments":""}}"#,
                r#"{"index":1,"id":"b","function":{"name":"Grep","arguments":{"y":2}}}"#,
                r#"{"index":1,"id":"other","function":{"arguments":""}}"#,
            ],
            // A name in two pieces.
            &[
                r#"{"index":0,"id":"a","function":{"name":"Re"}}"#,
                r#"{"index":0,"function":{"name":"ad","arguments":"{\"x\":1}"}}"#,
                r#"{"index":1,"id":"b","function":{"name":"Grep","arguments":"{\"y\":2}"}}"#,
            ],
        ] {
            assert_eq!(calls(pieces), two, "{pieces:#?}");
        }
    }

    #[test]
    fn calls_without_ids_are_told_apart_by_being_whole() {
        let two = want(&[("", "Read", r#"{"x":1}"#), ("", "Read", r#"{"x":2}"#)]);
        for index in ["", r#""index":0,"#, r#""index":0,"id":"","#, r#""index":null,"id":null,"#] {
            let piece = |n| format!(r#"{{{index}"function":{{"name":"Read","arguments":"{{\"x\":{n}}}"}}}}"#);
            assert_eq!(calls(&[&piece(1), &piece(2)]), two, "{index}");
        }
        let odd = [r#"{}"#, r#"{"index":"0","function":[]}"#];
        assert_eq!(calls(&odd), want(&[("", "", "")]));
    }
}
