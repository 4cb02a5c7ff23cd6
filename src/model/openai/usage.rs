//! Tokens, as the two wires and the servers that imitate them count.

use super::lenient;
use crate::wire::usage::Usage;
use serde::Deserialize;

/// The wires' `usage` object. Both name sets are read, as some servers send both.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Tokens {
    #[serde(deserialize_with = "lenient")]
    prompt_tokens: Option<u64>,
    #[serde(deserialize_with = "lenient")]
    input_tokens: Option<u64>,
    #[serde(deserialize_with = "lenient")]
    completion_tokens: Option<u64>,
    #[serde(deserialize_with = "lenient")]
    output_tokens: Option<u64>,
    #[serde(deserialize_with = "lenient")]
    total_tokens: Option<u64>,
    #[serde(deserialize_with = "lenient")]
    prompt_tokens_details: Option<Input>,
    #[serde(deserialize_with = "lenient")]
    input_tokens_details: Option<Input>,
    #[serde(deserialize_with = "lenient")]
    completion_tokens_details: Option<Output>,
    /// DeepSeek's name for what came from the cache.
    #[serde(deserialize_with = "lenient")]
    prompt_cache_hit_tokens: Option<u64>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Input {
    #[serde(deserialize_with = "lenient")]
    cached_tokens: Option<u64>,
    #[serde(deserialize_with = "lenient")]
    cache_write_tokens: Option<u64>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Output {
    #[serde(deserialize_with = "lenient")]
    reasoning_tokens: Option<u64>,
}

impl Tokens {
    /// In the Messages API's terms: there, input that was read from or written to the cache is no part
    /// of the fresh input; here it is.
    pub(super) fn usage(&self) -> Usage {
        let prompt = self.prompt_tokens.or(self.input_tokens).unwrap_or(0);
        let details = self.prompt_tokens_details.clone().or(self.input_tokens_details.clone());
        let details = details.unwrap_or_default();
        let cached = details.cached_tokens.or(self.prompt_cache_hit_tokens).unwrap_or(0).min(prompt);
        let written = details.cache_write_tokens.unwrap_or(0).min(prompt - cached);
        let answer = self.completion_tokens.or(self.output_tokens).unwrap_or(0);
        // Some servers count reasoning beside the answer; then the total tells.
        let reasoning = self.completion_tokens_details.as_ref().and_then(|d| d.reasoning_tokens).unwrap_or(0);
        let beside = self.total_tokens == prompt.checked_add(answer).and_then(|n| n.checked_add(reasoning));
        Usage {
            input_tokens: prompt - cached - written,
            output_tokens: if beside { answer + reasoning } else { answer },
            cache_creation_input_tokens: written,
            cache_read_input_tokens: cached,
            web_search_requests: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_counted_once_whatever_they_are_called() {
        for (text, want) in [
            (r#"{"prompt_tokens":10,"completion_tokens":4,"total_tokens":14}"#, [10, 4, 0, 0]),
            (
                r#"{"prompt_tokens":10,"completion_tokens":4,"total_tokens":14,"prompt_tokens_details":{"cached_tokens":7,"cache_write_tokens":2},"completion_tokens_details":{"reasoning_tokens":3}}"#,
                [1, 4, 2, 7],
            ),
            (
                r#"{"input_tokens":10,"input_tokens_details":{"cached_tokens":4},"output_tokens":4,"output_tokens_details":{"reasoning_tokens":3},"total_tokens":14}"#,
                [6, 4, 0, 4],
            ),
            (
                r#"{"prompt_tokens":10,"input_tokens":10,"completion_tokens":4,"total_tokens":17,"completion_tokens_details":{"reasoning_tokens":3}}"#,
                [10, 7, 0, 0],
            ),
            (r#"{"prompt_tokens":10,"completion_tokens":null,"prompt_cache_hit_tokens":8}"#, [2, 0, 0, 8]),
            (
                r#"{"prompt_tokens":3,"prompt_tokens_details":{"cached_tokens":9,"cache_write_tokens":9}}"#,
                [0, 0, 0, 3],
            ),
            (r#"{"prompt_tokens":-1,"completion_tokens":"4","prompt_tokens_details":[]}"#, [0, 0, 0, 0]),
        ] {
            let usage = serde_json::from_str::<Tokens>(text).expect("tokens").usage();
            let got = [
                usage.input_tokens,
                usage.output_tokens,
                usage.cache_creation_input_tokens,
                usage.cache_read_input_tokens,
            ];
            assert_eq!(got, want, "{text}");
        }
    }
}
