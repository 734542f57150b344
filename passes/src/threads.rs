//! Threads of a plan: independent searches side by side.

use std::fmt::{self, Debug, Formatter};
use std::sync::Arc;

use rayon::iter::{IntoParallelRefIterator as _, ParallelIterator as _};
use rayon::{ThreadPool, ThreadPoolBuilder};

/// Threads that independent searches of one plan may use. Clones share them; by default there are none, and
/// the calling thread does all the work.
///
/// A plan does not depend on their number: searches that run side by side share caches of answers only, and
/// results are taken in the order of the questions.
#[derive(Clone, Default)]
pub struct Threads(Option<Arc<ThreadPool>>);

impl Threads {
    /// Creates `count` threads; none for one or if the system refuses them.
    pub fn new(count: usize) -> Self {
        let pool = || {
            ThreadPoolBuilder::new().num_threads(count).thread_name(|number| format!("memc-{number}")).build()
        };
        Self((count > 1).then(pool).and_then(Result::ok).map(Arc::new))
    }

    /// Number of threads that work, at least one.
    pub fn count(&self) -> usize {
        self.0.as_ref().map_or(1, |pool| pool.current_num_threads())
    }

    /// Calls a function on the calling thread, with other work beside it if there are threads. Returns both
    /// results, its own first.
    pub fn beside<A, B: Send>(&self, own: impl FnOnce() -> A, work: impl Fn() -> B + Sync) -> (A, B) {
        let Some(pool) = &self.0 else { return (own(), work()) };
        let mut other = None;
        let own = pool.in_place_scope(|scope| {
            scope.spawn(|_| other = Some(work()));
            own()
        });
        (own, other.unwrap_or_else(work))
    }

    /// Calls both functions, side by side if there are threads. Returns their results.
    pub fn both<A: Send, B: Send>(
        &self,
        first: impl FnOnce() -> A + Send,
        second: impl FnOnce() -> B + Send,
    ) -> (A, B) {
        match &self.0 {
            Some(pool) => pool.join(first, second),
            None => (first(), second()),
        }
    }

    /// Calls a function for each item, side by side if there are threads. Returns the results in the order of
    /// the items.
    pub fn each<T: Sync, R: Send>(&self, items: &[T], work: impl Fn(&T) -> R + Send + Sync) -> Vec<R> {
        match &self.0 {
            Some(pool) if items.len() > 1 => pool.install(|| items.par_iter().map(work).collect()),
            _ => items.iter().map(work).collect(),
        }
    }
}

impl Debug for Threads {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        write!(formatter, "Threads({})", self.count())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_the_order_of_the_items() {
        let items: Vec<u32> = (0..1000).collect();
        for count in [0, 1, 2, 5] {
            let threads = Threads::new(count);
            assert_eq!(threads.count(), count.max(1));
            assert_eq!(
                threads.each(&items, |item| item * 2),
                items.iter().map(|item| item * 2).collect::<Vec<_>>()
            );
            assert_eq!(threads.both(|| 1, || threads.both(|| 2, || 3)), (1, (2, 3)));
        }
    }

    #[test]
    fn two_threads_meet() {
        let (threads, meeting) = (Threads::new(2), std::sync::Barrier::new(2));
        // With one thread, the first would wait forever.
        threads.both(|| meeting.wait(), || meeting.wait());
        threads.beside(|| meeting.wait(), || meeting.wait());
    }
}
