//! Exit codes as numbers, so that a process of another language can return them too.

use std::process;

/// Exit code of the command: 0 success, 1 bad model or file, 2 usage, 3 limit exceeded, 4 nothing
/// wrong but not proven equal, 70 a defect of memc.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ExitCode(u8);

impl ExitCode {
    /// The command did its work.
    pub const SUCCESS: Self = Self(0);
    /// A check found nothing wrong, and did not prove that the models are equal.
    pub const UNPROVEN: Self = Self(4);

    /// Returns the number.
    pub fn number(self) -> u8 {
        self.0
    }
}

impl From<u8> for ExitCode {
    fn from(number: u8) -> Self {
        Self(number)
    }
}

impl process::Termination for ExitCode {
    fn report(self) -> process::ExitCode {
        process::ExitCode::from(self.0)
    }
}
