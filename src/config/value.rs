//! From the tree to the types: a `serde` source over [`Node`], and what it can say is wrong.
//!
//! The errors stay data (an unknown key and the known ones, a wrong type and the expected one), so that the
//! words for people are made in one place, [`super::words`], and never taken out of another crate's text.
//! Where the reader put a stand-in, this source answers with something of the type asked for.

use std::fmt;

use serde::de::value::{MapDeserializer, SeqDeserializer};
use serde::de::{self, Deserializer, Expected, IntoDeserializer, Unexpected, Visitor};
use serde::forward_to_deserialize_any;

use super::source::Place;
use super::tree::{Node, Value, Variant};

/// What a type has against a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Wrong {
    UnknownKey {
        key: String,
        known: &'static [&'static str],
    },
    MissingKey(&'static str),
    /// None of the words that are allowed; the word, where it is one at all.
    Choice {
        known: &'static [&'static str],
    },
    /// Another type, in `serde`'s words.
    Type {
        expected: String,
    },
    /// The right type, but too large, too small, too few.
    Range {
        expected: String,
    },
    /// A type's own words.
    Other(String),
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

impl std::error::Error for Wrong {}

impl de::Error for Wrong {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::Other(message.to_string())
    }

    fn invalid_type(_: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::Type { expected: expected.to_string() }
    }

    fn invalid_value(_: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::Range { expected: expected.to_string() }
    }

    fn invalid_length(_: usize, expected: &dyn Expected) -> Self {
        Self::Range { expected: expected.to_string() }
    }

    fn unknown_variant(_: &str, known: &'static [&'static str]) -> Self {
        Self::Choice { known }
    }

    fn unknown_field(key: &str, known: &'static [&'static str]) -> Self {
        Self::UnknownKey { key: key.to_owned(), known }
    }

    fn missing_field(key: &'static str) -> Self {
        Self::MissingKey(key)
    }
}

static STAND_INS: [Node; 3] = [
    Node::new(Place::NONE, Value::StandIn(Variant::First)),
    Node::new(Place::NONE, Value::StandIn(Variant::Second)),
    Node::new(Place::NONE, Value::StandIn(Variant::Third)),
];
static EMPTY_MAP: Node = Node::new(Place::NONE, Value::Map(Vec::new()));

/// Each is a name, a path and a duration at once.
const TEXTS: [&str; 3] = ["1m", "7m", "59m"];
const ADDRESSES: [&str; 3] = ["0.0.0.0", "10.254.253.2", "10.254.253.3"];
const WHOLE: [u64; 3] = [1, 2, 97];

impl Variant {
    /// One of three.
    fn of<T>(self, [first, second, third]: [T; 3]) -> T {
        match self {
            Self::First => first,
            Self::Second => second,
            Self::Third => third,
        }
    }
}

impl<'de> IntoDeserializer<'de, Wrong> for &'de Node {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> Deserializer<'de> for &'de Node {
    type Error = Wrong;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        match &self.value {
            Value::Null => visitor.visit_unit(),
            // Asked for by what may be of several types, one of them text.
            Value::StandIn(variant) => visitor.visit_str(variant.of(TEXTS)),
            Value::Bool(is) => visitor.visit_bool(*is),
            Value::Int(whole) => match (u64::try_from(*whole), i64::try_from(*whole)) {
                (Ok(whole), _) => visitor.visit_u64(whole),
                (_, Ok(whole)) => visitor.visit_i64(whole),
                // `serde`'s own types know no larger ones: let them say that it is out of range.
                _ => visitor.visit_i64(i64::MIN),
            },
            Value::Float(number, _) => visitor.visit_f64(*number),
            Value::Text(text) => visitor.visit_borrowed_str(text),
            Value::List(list) => visitor.visit_seq(SeqDeserializer::new(list.iter())),
            Value::Map(map) => {
                visitor.visit_map(MapDeserializer::new(map.iter().map(|(key, node)| (key.as_str(), node))))
            }
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        match self.value {
            Value::Null | Value::StandIn(Variant::First) => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        self.or_stand_in(visitor, |visitor, variant| visitor.visit_bool(variant.of([true, false, true])))
    }

    fn deserialize_u32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        self.or_stand_in(visitor, |visitor, variant| visitor.visit_u64(variant.of(WHOLE)))
    }

    fn deserialize_u64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        self.or_stand_in(visitor, |visitor, variant| visitor.visit_u64(variant.of(WHOLE)))
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        self.or_stand_in(visitor, |visitor, variant| visitor.visit_f64(variant.of([1.0, 0.5, 0.25])))
    }

    /// Asked for by addresses.
    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        self.or_stand_in(visitor, |visitor, variant| visitor.visit_str(variant.of(ADDRESSES)))
    }

    /// Asked for by all other text: a name, a path and a duration at once.
    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        self.or_stand_in(visitor, |visitor, variant| visitor.visit_str(variant.of(TEXTS)))
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        self.or_stand_in(visitor, |visitor, variant| {
            let one = &STAND_INS[variant as usize];
            visitor.visit_seq(SeqDeserializer::new(std::iter::repeat_n(one, variant as usize)))
        })
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        self.or_stand_in(visitor, |visitor, _| EMPTY_MAP.deserialize_any(visitor))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Wrong> {
        match &self.value {
            // A list would be taken for the fields in their order.
            Value::List(_) => Err(Wrong::Type { expected: "a map".to_owned() }),
            _ => self.or_stand_in(visitor, |visitor, variant| {
                let one = &STAND_INS[variant as usize];
                visitor.visit_map(MapDeserializer::new(fields.iter().map(|field| (*field, one))))
            }),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        known: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Wrong> {
        match (&self.value, known) {
            (Value::Text(text), _) => visitor.visit_enum(text.as_str().into_deserializer()),
            (Value::StandIn(variant), [first, ..]) => {
                let word = known.get(*variant as usize).unwrap_or(first);
                visitor.visit_enum((*word).into_deserializer())
            }
            _ => Err(Wrong::Choice { known }),
        }
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i64 i128 u8 u16 u128 f32 char bytes byte_buf unit unit_struct newtype_struct tuple
        tuple_struct identifier ignored_any
    }
}

impl<'de> Node {
    fn or_stand_in<V: Visitor<'de>>(
        &'de self,
        visitor: V,
        stand_in: impl FnOnce(V, Variant) -> Result<V::Value, Wrong>,
    ) -> Result<V::Value, Wrong> {
        match self.value {
            Value::StandIn(variant) => stand_in(visitor, variant),
            _ => self.deserialize_any(visitor),
        }
    }
}
