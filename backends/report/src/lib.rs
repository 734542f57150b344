//! Text, JSON and self-contained HTML reports of a plan.
