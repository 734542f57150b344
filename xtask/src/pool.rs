//! Work on several items at once.

use std::sync::Mutex;
use std::thread;

use crate::Failure;

/// Calls `work` with each item, in order, one a processor at a time.
///
/// # Errors
/// The first error of `work`; a worker that meets one takes no other item.
pub(crate) fn each<T: Sync>(
    items: &[T],
    work: impl Fn(&T) -> Result<(), String> + Sync,
) -> Result<(), Failure> {
    let waiting = Mutex::new(items.iter());
    let run = || {
        loop {
            let Some(item) = waiting.lock().map_err(|error| error.to_string())?.next() else { return Ok(()) };
            work(item)?;
        }
    };
    let workers = thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let ended: Result<(), String> = thread::scope(|scope| {
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(run)).collect();
        workers
            .into_iter()
            .try_for_each(|worker| worker.join().unwrap_or_else(|_| Err("a worker panicked".to_owned())))
    });
    ended.map_err(Failure::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_item_is_worked_on_once_until_one_fails() {
        let seen = Mutex::new(Vec::new());
        let note =
            |item: &u32| seen.lock().map(|mut seen| seen.push(*item)).map_err(|error| error.to_string());
        assert!(each(&[1, 2, 3, 4, 5], note).is_ok());
        let mut seen = seen.into_inner().unwrap_or_default();
        seen.sort_unstable();
        assert_eq!(seen, [1, 2, 3, 4, 5]);
        let failed = each(&[1, 2], |item| if *item == 2 { Err("two".to_owned()) } else { Ok(()) });
        assert_eq!(failed.err().map(|error| error.to_string()).as_deref(), Some("two"));
    }
}
