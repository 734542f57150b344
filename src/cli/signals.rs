//! Signals that the system sends to a process: an end from outside leaves no partial files, and limits of
//! files are errors in words.
#![cfg_attr(unix, allow(unsafe_code))]

/// Answers the signals of a command. An error to do so changes nothing for the work of the command.
pub fn watch() {
    #[cfg(unix)]
    unix::watch();
}

#[cfg(unix)]
mod unix {
    use std::ffi::c_int;
    use std::fs::File;
    use std::io::{self, Write as _};
    use std::mem::ManuallyDrop;
    use std::os::fd::FromRawFd as _;
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    use signal_hook::consts::{SIGBUS, SIGHUP, SIGINT, SIGTERM};
    use signal_hook::iterator::Signals;
    use signal_hook::{flag, low_level};

    /// Number of the signal for files that exceed the largest size (`ulimit -f`).
    const SIGXFSZ: i32 = 25;
    /// Exit code for a file that cannot be read.
    const UNREADABLE: i32 = 1;
    /// Reading a map behind the end of its file ends in a signal.
    const CUT: &[u8] =
        b"error[E0116]: a file became shorter while memc read it\n  = help: nothing was written; \
        plan again when no other program writes to the model or its weights\n";

    pub fn watch() {
        // With an answer of any kind, a write beyond the largest size returns an error.
        let _ = flag::register(SIGXFSZ, Arc::<AtomicBool>::default());
        // SAFETY: the answer takes no lock that the stopped code may hold, and ends the process.
        let _ = unsafe { low_level::register(SIGBUS, cut) };
        let ends = [SIGTERM, SIGINT, SIGHUP].into_iter().filter(|signal| !is_ignored(*signal));
        if let Ok(mut signals) = Signals::new(ends) {
            std::thread::spawn(move || signals.forever().try_for_each(end));
        }
    }

    /// Whether the caller wants a signal ignored, as `nohup` does, and shells for commands in the background.
    fn is_ignored(number: c_int) -> bool {
        const IGNORE: usize = 1;
        unsafe extern "C" {
            fn signal(number: c_int, answer: usize) -> usize;
        }
        // SAFETY: ignoring a signal installs no code, and the answer before is put back (signal(2)).
        let before = unsafe { signal(number, IGNORE) };
        if before != IGNORE {
            unsafe { signal(number, before) };
        }
        before == IGNORE
    }

    /// Ends the process as the signal would, without partial files.
    fn end(signal: i32) -> io::Result<()> {
        memc::remove_partial_files();
        low_level::emulate_default_handler(signal)
    }

    fn cut() {
        // SAFETY: the descriptor of the standard errors stays open, as the file is never dropped.
        let mut errors = ManuallyDrop::new(unsafe { File::from_raw_fd(2) });
        let _ = errors.write_all(CUT);
        memc::remove_partial_files();
        low_level::exit(UNREADABLE);
    }
}
