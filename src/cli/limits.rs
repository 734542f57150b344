//! Limits of the system on a process: a file that exceeds them is reported as an error instead of ending
//! the process.
#![allow(unsafe_code)]

/// Makes writes beyond the largest file size (`ulimit -f`) return an error, so that partial files are
/// removed; by default the system ends the process.
pub fn heed_file_size() {
    #[cfg(all(any(target_os = "linux", target_os = "macos"), not(any(target_arch = "mips", target_arch = "mips64"))))]
    {
        use std::ffi::c_int;
        const SIGXFSZ: c_int = 25;
        const IGNORE: usize = 1;
        unsafe extern "C" {
            fn signal(number: c_int, handler: usize) -> usize;
        }
        // SAFETY: ignoring a signal installs no code (signal(2)).
        unsafe { signal(SIGXFSZ, IGNORE) };
    }
}
