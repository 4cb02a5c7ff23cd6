//! Objects whose unknown fields survive a rewrite.
//!
//! `#[serde(flatten)]` would pass unknown values through `serde_json::Value` and change their
//! bytes (big integers, `1e2`, duplicate escapes), so unknown members are kept raw here.

use serde::de::{self, DeserializeOwned, Deserializer, MapAccess, Visitor};
use serde::ser::{SerializeMap, Serializer};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::collections::HashSet;
use std::fmt;
use std::ops::{Deref, DerefMut};

/// A JSON object as an ordered list of members with raw values.
#[derive(Debug, Clone, Default)]
pub struct RawMap(pub Vec<(String, Box<RawValue>)>);

impl RawMap {
    /// The raw value of the last member named `key`.
    pub fn get(&self, key: &str) -> Option<&RawValue> {
        self.0.iter().rev().find(|(k, _)| k == key).map(|(_, v)| &**v)
    }
}

impl PartialEq for RawMap {
    fn eq(&self, other: &Self) -> bool {
        self.0.len() == other.0.len()
            && self.0.iter().zip(&other.0).all(|(a, b)| a.0 == b.0 && a.1.get() == b.1.get())
    }
}
impl Eq for RawMap {}

impl Serialize for RawMap {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (key, value) in &self.0 {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for RawMap {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = RawMap;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RawMap, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry::<String, Box<RawValue>>()? {
                    members.push(member);
                }
                Ok(RawMap(members))
            }
        }
        deserializer.deserialize_map(Members)
    }
}

/// A `T` together with the members of its object that `T` does not know.
///
/// Reading keeps them raw; writing puts them after `T`'s own fields. `T` must be a struct with
/// named fields that ignores unknown ones.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Open<T> {
    /// What we know.
    pub known: T,
    /// What others put there.
    pub unknown: RawMap,
}

impl<T> Open<T> {
    /// Wraps a value that has no unknown members.
    pub fn new(known: T) -> Self {
        Self { known, unknown: RawMap::default() }
    }
}
impl<T> From<T> for Open<T> {
    fn from(known: T) -> Self {
        Self::new(known)
    }
}
impl<T> Deref for Open<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.known
    }
}
impl<T> DerefMut for Open<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.known
    }
}

impl<T: Serialize> Serialize for Open<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::Error;
        let known = serde_json::value::to_raw_value(&self.known).map_err(S::Error::custom)?;
        let mut map: RawMap = serde_json::from_str(known.get()).map_err(S::Error::custom)?;
        map.0.extend(self.unknown.0.iter().cloned());
        map.serialize(serializer)
    }
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for Open<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error;
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        let known: T = serde_json::from_str(raw.get()).map_err(D::Error::custom)?;
        let all: RawMap = serde_json::from_str(raw.get()).map_err(D::Error::custom)?;
        let fields: HashSet<&str> = fields_of::<T>().iter().copied().collect();
        let unknown = all.0.into_iter().filter(|(k, _)| !fields.contains(k.as_str())).collect();
        Ok(Self { known, unknown: RawMap(unknown) })
    }
}

/// The field names that the derived `Deserialize` of a struct asks for (aliases included).
pub fn fields_of<T: DeserializeOwned>() -> &'static [&'static str] {
    struct Ask<'a>(&'a mut &'static [&'static str]);
    impl<'de> Deserializer<'de> for Ask<'_> {
        type Error = de::value::Error;
        fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Self::Error> {
            Err(de::Error::custom("only structs are asked"))
        }
        fn deserialize_struct<V: Visitor<'de>>(
            self,
            _: &'static str,
            fields: &'static [&'static str],
            _: V,
        ) -> Result<V::Value, Self::Error> {
            *self.0 = fields;
            Err(de::Error::custom("asked"))
        }
        serde::forward_to_deserialize_any! {
            bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option
            unit unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
        }
    }
    let mut fields: &'static [&'static str] = &[];
    drop(T::deserialize(Ask(&mut fields)));
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Known {
        first: u8,
        #[serde(skip_serializing_if = "Option::is_none")]
        second_one: Option<u8>,
    }

    #[test]
    fn unknown_members_keep_their_bytes_and_known_ones_can_be_removed() {
        let text = r#"{"x":1e2,"secondOne":3,"first":1,"big":123456789012345678901234567890,"s":"\u00e9"}"#;
        let mut open: Open<Known> = serde_json::from_str(text).expect("reads");
        open.second_one = None;
        let written = serde_json::to_string(&open).expect("writes");
        assert_eq!(written, r#"{"first":1,"x":1e2,"big":123456789012345678901234567890,"s":"\u00e9"}"#);
    }
}
