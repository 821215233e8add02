//! What was worked out for the last few calls, for the next one that is like them.

use alloc::sync::Arc;
use alloc::vec::Vec;

/// A few values, to be found by what they were made of. A full list forgets the oldest.
///
/// Nothing depends on what is in it: it saves work, and what is not found is made again.
pub(super) struct Recent<T> {
    values: Vec<T>,
    capacity: usize,
    /// Once the list is full: the oldest value.
    oldest: usize,
}

impl<T> Recent<T> {
    /// An empty list for `capacity` values; takes no memory yet.
    pub(super) const fn new(capacity: usize) -> Self {
        Self { values: Vec::new(), capacity, oldest: 0 }
    }

    /// Forgets all values, and gives their memory back.
    pub(super) fn clear(&mut self) {
        *self = Self::new(self.capacity);
    }

    /// Place of the value for which `is_it` says so.
    pub(super) fn position(&self, is_it: impl FnMut(&T) -> bool) -> Option<usize> {
        self.values.iter().position(is_it)
    }

    /// Place of the value for which `is_it` says so; it may note in a value that it was found.
    pub(super) fn position_mut(&mut self, is_it: impl FnMut(&mut T) -> bool) -> Option<usize> {
        self.values.iter_mut().position(is_it)
    }

    /// The value for which `is_it` says so.
    pub(super) fn find(&self, is_it: impl FnMut(&&T) -> bool) -> Option<&T> {
        self.values.iter().find(is_it)
    }

    /// The value in a place.
    pub(super) fn get(&self, place: usize) -> Option<&T> {
        self.values.get(place)
    }

    /// The value in a place, to be changed.
    pub(super) fn get_mut(&mut self, place: usize) -> Option<&mut T> {
        self.values.get_mut(place)
    }

    /// Keeps a value, in place of the oldest if the list is full; returns its place.
    pub(super) fn insert(&mut self, value: T) -> usize {
        if self.values.len() < self.capacity {
            self.values.push(value);
            return self.values.len() - 1;
        }
        let place = self.oldest;
        if let Some(oldest) = self.values.get_mut(place) {
            *oldest = value;
            self.oldest = if place + 1 < self.capacity { place + 1 } else { 0 };
        }
        place
    }
}

/// Whether a shared value may come again: one that nobody else holds will not, and is not worth a place.
pub(super) fn may_recur<T>(value: &Arc<T>) -> bool {
    Arc::strong_count(value) > 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_list_forgets_the_oldest_value_and_never_grows() {
        let mut recent = Recent::new(3);
        for value in 0..100 {
            let place = recent.insert(value);
            assert_eq!(recent.get(place), Some(&value));
            let expected = (0..100).filter(|kept| (value - 2..=value).contains(kept));
            assert!(expected.clone().all(|kept| recent.position(|known| *known == kept).is_some()), "{value}");
            assert_eq!(recent.values.len(), expected.count());
        }
    }

    #[test]
    fn a_list_for_nothing_keeps_nothing() {
        let mut recent = Recent::new(0);
        let place = recent.insert(1);
        assert_eq!((recent.get(place), recent.values.capacity()), (None, 0));
    }
}
