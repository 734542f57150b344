//! Times of steps on engines, and the live ranges that follow from them.

use memc_ir::Module;
use memc_solve::{engines, order, place};

use crate::options::Options;
use crate::parallel::Wait;

/// Returns the modelled time of each node of the main graph in whole nanoseconds, at least 1: steps of no
/// time would have no order.
pub(super) fn nanos(module: &Module, options: &Options) -> Vec<u64> {
    module.graph(module.main()).nodes.iter().map(|node| options.nanos(module, *node)).collect()
}

/// Engine and time of each step, in the order of the starts.
#[derive(Debug)]
pub(super) struct Spans {
    pub(super) engines: Vec<u32>,
    /// Begin and end.
    pub(super) spans: Vec<(u64, u64)>,
}

impl Spans {
    /// Lists the operations of a schedule in an order.
    pub(super) fn of(problem: &engines::Problem, schedule: &engines::Schedule, order: &[u32]) -> Self {
        let all = order.iter().map(|operation| *operation as usize);
        let span = |operation: usize| (schedule.starts[operation], schedule.end(problem, operation));
        Self {
            engines: all.clone().map(|operation| schedule.engines[operation]).collect(),
            spans: all.map(span).collect(),
        }
    }

    /// Replaces the live ranges of a placement problem, buffers before workspace, by ranges of time. Times
    /// are numbered in ascending order, so that the solver sees short ranges.
    pub(super) fn retime(&self, ordered: &order::Problem, problem: &mut place::Problem) {
        let mut times: Vec<u64> = self.spans.iter().flat_map(|(begin, end)| [*begin, *end]).collect();
        times.sort_unstable();
        times.dedup();
        let number = |time: u64| times.partition_point(|earlier| *earlier < time) as u32;
        let last = times.len() as u32;
        for (row, buffer) in problem.buffers.iter_mut().zip(&ordered.buffers) {
            let users = || buffer.users.iter().map(|user| self.spans[*user as usize]);
            row.start = if buffer.live_from_start {
                0
            } else {
                users().map(|span| number(span.0)).min().unwrap_or(0)
            };
            row.end = if buffer.kept {
                last
            } else {
                users().map(|span| number(span.1)).max().unwrap_or(row.start + 1)
            };
        }
        for row in &mut problem.buffers[ordered.buffers.len()..] {
            let (begin, end) = self.spans[row.start as usize];
            (row.start, row.end) = (number(begin), number(end));
        }
    }

    /// Lets each step begin as soon as its engine is free and its waits are over.
    pub(super) fn tighten(&mut self, waits: &[Wait]) {
        let mut free = vec![0; self.engines.iter().max().map_or(0, |largest| *largest as usize + 1)];
        let mut waits = waits.iter().peekable();
        for step in 0..self.spans.len() {
            let engine = self.engines[step] as usize;
            let mut begin: u64 = free[engine];
            while let Some(wait) = waits.next_if(|wait| wait.step as usize == step) {
                begin = begin.max(self.spans[wait.after as usize].1);
            }
            let (before, end) = self.spans[step];
            self.spans[step] = (begin, begin + (end - before));
            free[engine] = self.spans[step].1;
        }
    }
}
