//! Re-derives and verifies a plan from the files alone.
