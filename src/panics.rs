//! Panics are defects of memc: callers get them as errors that say what happened, and where.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::panic::{self, AssertUnwindSafe, PanicHookInfo};
use std::sync::Once;

use crate::error::Error;

thread_local! {
    /// Number of calls of [`caught`] that this thread is in.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
    /// File and line of the last panic of this thread.
    static PLACE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Makes panics that [`caught`] turns into errors silent, and notes their places for these errors. A
/// program calls it once at its start; a second call does nothing.
pub fn watch() {
    static SET: Once = Once::new();
    SET.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info: &PanicHookInfo<'_>| {
            PLACE.set(info.location().map(|place| format!("{}:{}", place.file(), place.line())));
            // A backtrace is printed if the environment asks for one.
            let wants_trace = std::env::var_os("RUST_BACKTRACE").is_some_and(|value| value != "0");
            if DEPTH.get() == 0 || wants_trace {
                before(info);
            }
        }));
    });
}

/// Does the work; a panic of it is [`Error::Panic`].
///
/// # Errors
/// The work panics.
pub fn caught<T>(work: impl FnOnce() -> T) -> Result<T, Error> {
    DEPTH.set(DEPTH.get() + 1);
    // What the work changed is not read again: its results are lost, and files are written under other
    // names first.
    let outcome = panic::catch_unwind(AssertUnwindSafe(work));
    DEPTH.set(DEPTH.get() - 1);
    outcome.map_err(|payload| Error::Panic { message: words(payload.as_ref()), place: PLACE.take() })
}

/// The words of a panic.
fn words(payload: &(dyn Any + Send)) -> String {
    let literal = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    literal.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::panic, clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_panic_is_an_error_with_its_words_and_its_place() {
        watch();
        watch();
        assert_eq!(caught(|| 7).unwrap(), 7);
        let index = std::hint::black_box(9);
        let error = caught(|| [1, 2, 3][index]).unwrap_err();
        assert_eq!((error.exit_code(), error.diagnostic().code), (70, "E0904"));
        let text = error.diagnostic().to_string();
        for part in
            ["index out of bounds: the len is 3", "src/panics.rs:", env!("CARGO_PKG_VERSION"), "report"]
        {
            assert!(text.contains(part), "{text}");
        }
        // A place is that of its own panic.
        let Error::Panic { message, place } =
            caught(|| caught(|| panic!("one")).and(Ok(())).unwrap()).unwrap_err()
        else {
            panic!()
        };
        assert!(
            message.contains("one") && place.is_some_and(|place| place.starts_with("src/panics.rs")),
            "{message}"
        );
    }
}
