//! What was recorded, and what is too much beside it.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Map, Value, json};

use super::callgrind::Profile;
use super::cell::Work;

/// How much more instructions may be than what was recorded.
const LIMIT: f64 = 0.03;

/// How much more the fast path may cost than the general one: what the places of memory make of malloc and free, and
/// the moment of growth of a buffer, where both do the same.
const RESOLUTION: f64 = 0.01;

/// Functions that are recorded, by what they cost.
const RECORDED: usize = 60;

/// What one call, or one message of a stream, costs one side.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Cost {
    pub(super) writes: f64,
    pub(super) allocations: f64,
    pub(super) allocated: f64,
    /// Absent where valgrind is.
    pub(super) instructions: Option<f64>,
    /// Instructions of the functions that cost most.
    pub(super) functions: BTreeMap<String, f64>,
}

impl Cost {
    pub(super) fn new(work: &Work, profile: Option<&Profile>, units: u64) -> Self {
        let each = |total: u64| round(total as f64 / units as f64);
        let mut functions: Vec<_> = profile.into_iter().flat_map(|profile| &profile.functions).collect();
        functions.sort_by_key(|(_, cost)| std::cmp::Reverse(**cost));
        Self {
            writes: each(work.writes),
            allocations: each(work.allocations),
            allocated: each(work.allocated),
            instructions: profile.map(|profile| each(profile.total)),
            functions: functions.into_iter().take(RECORDED).map(|(name, cost)| (name.clone(), each(*cost))).collect(),
        }
    }

    pub(super) fn to_json(&self) -> Value {
        json!({
            "writes": self.writes,
            "allocations": self.allocations,
            "allocated": self.allocated,
            "instructions": self.instructions,
            "functions": self.functions,
        })
    }

    pub(super) fn from_json(value: &Value) -> Option<Self> {
        let number = |key: &str| value[key].as_f64();
        let functions = value["functions"].as_object().map(numbers).unwrap_or_default();
        Some(Self {
            writes: number("writes")?,
            allocations: number("allocations")?,
            allocated: number("allocated")?,
            instructions: number("instructions"),
            functions,
        })
    }

    /// What is more than what was `recorded`. Writes and allocations are exact, and may not grow at all.
    pub(super) fn excess(&self, recorded: &Self) -> Vec<Excess> {
        self.excess_within(recorded, LIMIT, 0.0)
    }

    /// What is more than by the `general` path, of a call that took the fast one.
    pub(super) fn excess_over_general(&self, general: &Self) -> Vec<Excess> {
        self.excess_within(general, RESOLUTION, RESOLUTION)
    }

    fn excess_within(&self, recorded: &Self, instructions: f64, others: f64) -> Vec<Excess> {
        let mut excess = Vec::new();
        let mut compare = |what: &'static str, now: f64, then: f64, limit: f64| {
            // Half of the last digit that is recorded.
            if now > then * (1.0 + limit) + 0.0005 {
                excess.push(Excess { what, now, then, limit, grew: None });
            }
        };
        compare("writes", self.writes, recorded.writes, others);
        compare("allocations", self.allocations, recorded.allocations, others);
        compare("bytes allocated", self.allocated, recorded.allocated, others);
        if let (Some(now), Some(then)) = (self.instructions, recorded.instructions) {
            compare("instructions", now, then, instructions);
            if let Some(last) = excess.last_mut().filter(|last| last.what == "instructions") {
                last.grew = self.most_grown(recorded);
            }
        }
        excess
    }

    /// Whether a figure fell so far that it should be recorded anew, or the gain could be lost unseen.
    pub(super) fn has_gained(&self, recorded: &Self) -> bool {
        let fell = |now: Option<f64>, then: Option<f64>| matches!((now, then), (Some(now), Some(then)) if now < then * (1.0 - LIMIT));
        fell(self.instructions, recorded.instructions)
            || fell(Some(self.writes), Some(recorded.writes))
            || fell(Some(self.allocations), Some(recorded.allocations))
    }

    fn most_grown(&self, recorded: &Self) -> Option<(String, f64)> {
        let growth = self.functions.iter().map(|(name, now)| {
            let then = recorded.functions.get(name).copied().unwrap_or(0.0);
            (name.clone(), round(now - then))
        });
        growth.max_by(|(_, one), (_, other)| one.total_cmp(other))
    }
}

/// A figure that is above its limit.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Excess {
    what: &'static str,
    now: f64,
    then: f64,
    limit: f64,
    /// The function whose own instructions grew most, and by how many.
    grew: Option<(String, f64)>,
}

impl fmt::Display for Excess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, now, then, limit, grew } = self;
        let percent =
            if *then > 0.0 { format!("{:+.1} %", (now / then - 1.0) * 100.0) } else { "from none".to_owned() };
        write!(f, "{what} {then} -> {now}, {percent} (limit {:+} %)", limit * 100.0)?;
        match grew {
            Some((function, by)) => write!(f, "; most grew {function}, by {by}"),
            None => Ok(()),
        }
    }
}

fn numbers(map: &Map<String, Value>) -> BTreeMap<String, f64> {
    map.iter().filter_map(|(key, value)| Some((key.clone(), value.as_f64()?))).collect()
}

fn round(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(instructions: f64, one: f64, other: f64) -> Cost {
        let functions = BTreeMap::from([("one".to_owned(), one), ("other".to_owned(), other)]);
        Cost { writes: 1.0, allocations: 5.0, allocated: 640.0, instructions: Some(instructions), functions }
    }

    #[test]
    fn instructions_may_grow_by_three_percent_and_the_excess_names_what_grew() {
        let recorded = cost(1000.0, 600.0, 400.0);
        assert_eq!(cost(1030.0, 600.0, 430.0).excess(&recorded), []);
        let excess = cost(1040.0, 650.0, 390.0).excess(&recorded);
        let text = excess.iter().map(Excess::to_string).collect::<Vec<_>>();
        assert_eq!(text, ["instructions 1000 -> 1040, +4.0 % (limit +3 %); most grew one, by 50"]);
    }

    #[test]
    fn writes_and_allocations_may_not_grow_at_all() {
        let recorded = cost(1000.0, 0.0, 0.0);
        let more = Cost { writes: 1.01, allocations: 5.01, allocated: 640.01, ..recorded.clone() };
        assert_eq!(more.excess(&recorded).len(), 3);
        let none = Cost { allocations: 0.0, ..recorded.clone() };
        assert_eq!(recorded.excess(&none)[0].to_string(), "allocations 0 -> 5, from none (limit +0 %)");
    }

    /// bg:R11: what the gates call a failure between the two paths of one quadrant.
    #[test]
    fn the_fast_path_may_cost_no_more_than_the_general_one() {
        let general = cost(1000.0, 600.0, 400.0);
        assert_eq!(cost(1010.0, 610.0, 400.0).excess_over_general(&general), []);
        let slower = cost(1012.0, 600.0, 412.0).excess_over_general(&general);
        assert_eq!(slower[0].to_string(), "instructions 1000 -> 1012, +1.2 % (limit +1 %); most grew other, by 12");
        let greedy = Cost { allocations: 5.1, ..general.clone() };
        assert_eq!(greedy.excess_over_general(&general).len(), 1);
    }

    #[test]
    fn a_gain_is_one_beyond_the_limit() {
        let recorded = cost(1000.0, 600.0, 400.0);
        assert!(!cost(980.0, 600.0, 380.0).has_gained(&recorded));
        assert!(cost(960.0, 600.0, 360.0).has_gained(&recorded));
        assert!(Cost { allocations: 4.0, ..recorded.clone() }.has_gained(&recorded));
    }

    #[test]
    fn a_cost_is_read_as_it_was_written() {
        let cost = cost(1000.5, 600.25, 400.0);
        assert_eq!(Cost::from_json(&cost.to_json()), Some(cost));
        let counted = Cost { writes: 2.0, ..Cost::default() };
        assert_eq!(Cost::from_json(&counted.to_json()), Some(counted));
    }
}
