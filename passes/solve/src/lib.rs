//! Ordering and placement as pure problems, each with bounds and an independent checker.
