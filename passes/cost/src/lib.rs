//! Time and traffic of nodes and schedules; target descriptions.
