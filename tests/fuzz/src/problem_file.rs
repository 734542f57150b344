//! Problem files: arbitrary text never causes a panic, and every problem that is read can be solved or
//! rejected, and written.

use memc::memc_solve::{Limit, budget, order, place};

/// Maximum number of rows or nodes of a file that is also solved.
const MAX_SOLVED: usize = 200;

/// Reads bytes as a placement problem, as an ordering problem, and as a problem of recomputation within
/// half of its peak.
pub fn read_problem(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Ok(table) = place::csv::read(&text)
        && table.ids.len() <= MAX_SOLVED
        && let Ok(outcome) = place::solve(&table.problem, &Limit::nodes(20))
        && let Some(solution) = &outcome.solution
    {
        assert_eq!(place::check(&table.problem, solution), Ok(()), "{text}");
        let written = place::csv::write(&table, Some(solution));
        assert!(place::csv::read(&written).is_ok(), "{written}");
    }
    if let Ok(dag) = order::json::read(&text)
        && let Ok(problem) = dag.problem()
        && let Ok(given) = problem.topological_order()
        && given.len() <= MAX_SOLVED
        && let Ok(outcome) = order::solve(&problem, &given, &Limit::nodes(20))
    {
        let base = order::peak(&problem, &given).unwrap_or_else(|error| panic!("{error}"));
        let answer = dag.answer(&outcome, base);
        assert!(serde_json::to_string(&answer).is_ok());
    }
    if let Ok(dag) = budget::json::read(&text)
        && let Ok(problem) = budget::json::problem(&dag)
        && problem.runs.len() <= MAX_SOLVED
    {
        let given: Vec<budget::Event> = (0..problem.runs.len() as u32).map(budget::Event::Run).collect();
        let Ok(base) = budget::measure(&problem, &given) else { return };
        if let Ok(certified) = budget::plan(&problem, base.peak / 2, Limit::nodes(20)) {
            let answer = budget::json::answer(&dag, base.peak / 2, base.peak, &certified);
            assert!(serde_json::to_string(&answer).is_ok());
        }
    }
}
