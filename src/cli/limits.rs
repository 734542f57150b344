//! Limits that the system sets a process: a file that grows beyond them is an error to report, not the end.
#![allow(unsafe_code)]

/// Lets writes beyond the largest file size (`ulimit -f`) fail, where the system would end the process: what was made until then is removed.
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
