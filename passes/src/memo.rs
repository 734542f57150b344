//! Memory of earlier runs on one model: several strategies often give a solver equal problems.

use std::any::Any;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use memc_solve::{Limit, Outcome, StopReason, order, place};

/// Capacity of one solver's memory: total number of operations or buffers in all remembered problems.
const MAX_REMEMBERED: usize = 50_000;

/// Answers of solvers and objects of passes, for one model under one set of options. Clones share their
/// content.
#[derive(Clone, Debug, Default)]
pub struct Memo {
    orders: Known<(order::Problem, u64), Vec<u32>>,
    places: Known<place::Problem, place::Solution>,
    kept: Objects,
    own: Objects,
    spent: Arc<AtomicU64>,
}

impl Memo {
    /// Returns the shared object of type `T`, made by its default at the first call. Threads use it side by
    /// side, so its answers must not depend on earlier questions. Linear in the number of types.
    pub fn kept<T: Any + Default + Send + Sync>(&self) -> Arc<T> {
        self.kept.of()
    }

    /// Returns the object of type `T` that belongs to one search, made by its default at the first call. Its
    /// answers may depend on earlier questions of the search. Linear in the number of types.
    pub fn own<T: Any + Default + Send + Sync>(&self) -> Arc<T> {
        self.own.of()
    }

    /// Returns the memory of another search on the same model: it shares answers, but counts search nodes by
    /// itself and has objects of its own.
    pub fn apart(&self) -> Self {
        Self { spent: Arc::default(), own: Objects::default(), ..self.clone() }
    }

    /// Returns the number of search nodes of all answers so far. A remembered answer counts as if it were
    /// found anew, so that the number does not depend on other threads.
    pub fn spent(&self) -> u64 {
        self.spent.load(Ordering::Relaxed)
    }

    /// Adds search nodes to the spent total.
    pub fn spend(&self, nodes: u64) {
        self.spent.fetch_add(nodes, Ordering::Relaxed);
    }

    /// Orders a problem from its present order and searches only for peaks below `below`; see
    /// [`order::solve_below`].
    ///
    /// # Errors
    /// The solver refuses the problem.
    pub fn order(
        &self,
        problem: &order::Problem,
        below: u64,
        limit: &Limit,
    ) -> Result<Outcome<Vec<u32>>, order::OrderError> {
        let count = problem.operations.len();
        let outcome = self.orders.ask(&(problem.clone(), below), count, limit, || {
            let given: Vec<u32> = (0..count as u32).collect();
            order::solve_below(problem, &given, below, limit)
        })?;
        self.spend(outcome.effort);
        Ok(outcome)
    }

    /// Places the buffers of a problem; see [`place::solve`].
    ///
    /// Asks for the placement without effort first and returns it if it reaches the bound. So the answer
    /// does not depend on earlier questions: with effort, the solver packs first and finds other offsets
    /// of equal height.
    ///
    /// # Errors
    /// The solver refuses the problem.
    pub fn place(
        &self,
        problem: &place::Problem,
        limit: &Limit,
    ) -> Result<Outcome<place::Solution>, place::ProblemError> {
        let at_once = self.place_within(problem, &limit.with_nodes(0))?;
        if limit.nodes == 0 || at_once.stop == StopReason::BoundReached {
            return Ok(at_once);
        }
        self.place_within(problem, limit)
    }

    /// Places the buffers of a problem within exactly this limit.
    fn place_within(
        &self,
        problem: &place::Problem,
        limit: &Limit,
    ) -> Result<Outcome<place::Solution>, place::ProblemError> {
        let outcome =
            self.places.ask(problem, problem.buffers.len(), limit, || place::solve(problem, limit))?;
        self.spend(outcome.effort);
        Ok(outcome)
    }
}

/// Objects, one of a type. Clones share them.
#[derive(Clone, Debug, Default)]
struct Objects(Arc<Mutex<Vec<Arc<dyn Any + Send + Sync>>>>);

impl Objects {
    fn of<T: Any + Default + Send + Sync>(&self) -> Arc<T> {
        let mut all = locked(&self.0);
        let known = all.iter().find_map(|kept| kept.clone().downcast::<T>().ok());
        known.unwrap_or_else(|| {
            let made = Arc::new(T::default());
            all.push(made.clone());
            made
        })
    }
}

/// Locks shared content. A thread that panicked leaves it whole: every change is one step.
fn locked<T: ?Sized>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Answers by problem and limit, oldest first.
#[derive(Clone, Debug)]
struct Known<Q, S>(Arc<Mutex<VecDeque<Entry<Q, S>>>>);

#[derive(Debug)]
struct Entry<Q, S> {
    question: Q,
    size: usize,
    limit: Limit,
    answer: Outcome<S>,
}

impl<Q, S> Default for Known<Q, S> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<Q: Clone + PartialEq, S: Clone> Known<Q, S> {
    /// Returns the remembered answer, or calls `solve` and remembers its answer. Drops the oldest
    /// answers beyond [`MAX_REMEMBERED`].
    fn ask<E>(
        &self,
        question: &Q,
        size: usize,
        limit: &Limit,
        solve: impl FnOnce() -> Result<Outcome<S>, E>,
    ) -> Result<Outcome<S>, E> {
        // An optimum proven by heuristics also answers every higher limit.
        let is_enough =
            |entry: &Entry<Q, S>| entry.answer.stop == StopReason::BoundReached && entry.answer.effort == 0;
        let answers = |entry: &Entry<Q, S>| {
            entry.limit == *limit || entry.limit.nodes < limit.nodes && is_enough(entry)
        };
        let is_it =
            |entry: &&Entry<Q, S>| entry.size == size && answers(entry) && entry.question == *question;
        let known = locked(&self.0).iter().find(is_it).map(|entry| entry.answer.clone());
        if let Some(known) = known {
            return Ok(known);
        }
        let answer = solve()?;
        let mut entries = locked(&self.0);
        entries.push_back(Entry { question: question.clone(), size, limit: *limit, answer: answer.clone() });
        while entries.iter().map(|entry| entry.size).sum::<usize>() > MAX_REMEMBERED {
            entries.pop_front();
        }
        Ok(answer)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn outcome(value: u64) -> Result<Outcome<u64>, ()> {
        Ok(Outcome {
            solution: Some(value),
            value: Some(value),
            lower_bound: 0,
            stop: StopReason::NodeLimit,
            effort: 0,
        })
    }

    #[test]
    fn only_an_equal_question_at_an_equal_limit_is_answered_from_memory() {
        let known: Known<u32, u64> = Known::default();
        let ask = |question: u32, nodes: u64, answer: u64| {
            known.ask(&question, 1, &Limit::nodes(nodes), || outcome(answer)).unwrap().value.unwrap()
        };
        assert_eq!([ask(1, 0, 10), ask(2, 0, 20), ask(1, 5, 30)], [10, 20, 30]);
        assert_eq!([ask(1, 0, 0), ask(2, 0, 0), ask(1, 5, 0)], [10, 20, 30]);
    }

    #[test]
    fn an_optimum_proved_by_heuristics_answers_every_higher_limit() {
        let known: Known<u32, u64> = Known::default();
        let ask = |nodes: u64, answer: u64, stop: StopReason, effort: u64| {
            let outcome = |value| outcome(value).map(|outcome| Outcome { stop, effort, ..outcome });
            known.ask(&1, 1, &Limit::nodes(nodes), || outcome(answer)).unwrap().value.unwrap()
        };
        assert_eq!(ask(4, 10, StopReason::BoundReached, 0), 10);
        assert_eq!([ask(5, 20, StopReason::NodeLimit, 0), ask(3, 30, StopReason::NodeLimit, 0)], [10, 30]);
        let searched: Known<u32, u64> = Known::default();
        let ask = |nodes: u64, answer: u64| {
            let outcome = outcome(answer).map(|outcome| Outcome {
                stop: StopReason::BoundReached,
                effort: 1,
                ..outcome
            });
            searched.ask(&1, 1, &Limit::nodes(nodes), || outcome).unwrap().value.unwrap()
        };
        assert_eq!([ask(4, 10), ask(5, 20)], [10, 20]);
    }

    #[test]
    fn clones_share_one_object_per_type() {
        let memo = Memo::default();
        memo.clone().kept::<AtomicU64>().store(7, Ordering::Relaxed);
        assert_eq!(memo.kept::<AtomicU64>().load(Ordering::Relaxed), 7);
        assert_eq!(memo.kept::<std::sync::atomic::AtomicU32>().load(Ordering::Relaxed), 0);
        assert_eq!(memo.apart().kept::<AtomicU64>().load(Ordering::Relaxed), 7);
        assert_eq!(memo.own::<AtomicU64>().load(Ordering::Relaxed), 0);
        memo.clone().own::<AtomicU64>().store(8, Ordering::Relaxed);
        assert_eq!(memo.own::<AtomicU64>().load(Ordering::Relaxed), 8);
        assert_eq!(memo.apart().own::<AtomicU64>().load(Ordering::Relaxed), 0);
    }

    #[test]
    fn the_oldest_answers_are_forgotten_when_all_are_too_large_together() {
        let known: Known<u32, u64> = Known::default();
        let ask = |question: u32, answer: u64| {
            known
                .ask(&question, MAX_REMEMBERED / 2, &Limit::nodes(0), || outcome(answer))
                .unwrap()
                .value
                .unwrap()
        };
        assert_eq!([ask(1, 10), ask(2, 20), ask(3, 30)], [10, 20, 30]);
        assert_eq!([ask(3, 0), ask(2, 0), ask(1, 11)], [30, 20, 11]);
    }

    /// Outputs and workspace of one attention node: with effort, the solver packs them in another way.
    #[test]
    fn placements_do_not_depend_on_earlier_questions() {
        let buffer = |size: u64| place::Buffer { alignment: 64, ..place::Buffer::new(0, 1, size) };
        let problem = place::Problem {
            buffers: [960, 3456, 4320, 1728].map(buffer).to_vec(),
            ..place::Problem::default()
        };
        let (fresh, asked) = (Memo::default(), Memo::default());
        asked.place(&problem, &Limit::nodes(0)).unwrap();
        let offsets =
            |memo: &Memo| memo.place(&problem, &Limit::default()).unwrap().solution.unwrap().offsets;
        assert_eq!(offsets(&fresh), offsets(&asked));
    }
}
