//! Mending: changes a plan whose live bytes keep the limit but whose offsets do not, only at the steps
//! of the buffers beyond the limit.

use std::collections::BTreeMap;

use memc_ir::{Bytes, Module, Node};

use super::attempt::{Found, tightened};
use super::state::Stated;
use super::trial::place;
use memc_passes::analysis::Memory;
use memc_passes::{PassContext, PassError};

/// The limit that plans must keep, with the module and its problem.
pub(super) struct Asked<'a, 'o> {
    pub(super) module: &'a Module,
    pub(super) ctx: &'a PassContext<'o>,
    pub(super) stated: &'a Stated,
    pub(super) limit: Bytes,
}

impl Asked<'_, '_> {
    /// Changes a plan until its arena keeps the limit; `None` if that fails, or takes `dearest`
    /// nanoseconds or more.
    ///
    /// For a buffer beyond the limit, the runs at its steps without room must leave free the bytes
    /// beyond the limit, more in each round; the search continues from the current plan. A plan that
    /// changes much gets new offsets, so a plan that nearly fits changes little.
    ///
    /// # Errors
    /// Returns the errors of trials.
    pub(super) fn mended(&self, mut found: Found, dearest: u64) -> Result<Option<Found>, PassError> {
        let mut margins = vec![0; self.stated.nodes.len()];
        let mut failed = margins.clone();
        let tuning = &self.ctx.options.tuning.mend;
        for round in 0..tuning.max_changes {
            if found.budgeted.makespan >= dearest {
                break;
            }
            let Some(placed) = self.settle(&mut found)? else {
                return self.eased(found, margins, failed).map(Some);
            };
            if round + 1 == tuning.max_changes || self.ctx.options.stop.is_due() {
                break;
            }
            failed.clone_from(&margins);
            self.widen(&mut margins, &placed, &found, round >= tuning.everywhere);
            let is_near = found.arena.0 - self.limit.0 <= tuning.small_excess.of(self.limit.0);
            let effort = if is_near { 0 } else { tuning.effort.of(self.ctx.effort()) };
            match tightened(self.module, self.ctx, self.stated, &margins, &found, effort)? {
                Some(next) => found = next,
                None => break,
            }
        }
        Ok(None)
    }

    /// Gives room back to a plan that fits: takes half of the margin between it and the last plan that
    /// did not fit.
    fn eased(&self, mut best: Found, mut fits: Vec<u64>, mut failed: Vec<u64>) -> Result<Found, PassError> {
        for _ in 0..self.ctx.options.tuning.mend.eased {
            if fits == failed || self.ctx.options.stop.is_due() {
                break;
            }
            let margins: Vec<u64> =
                fits.iter().zip(&failed).map(|(fits, failed)| fits.midpoint(*failed)).collect();
            let effort = self.ctx.options.tuning.mend.effort.of(self.ctx.effort());
            let Some(mut found) = tightened(self.module, self.ctx, self.stated, &margins, &best, effort)?
            else {
                break;
            };
            if found.budgeted.makespan >= best.budgeted.makespan {
                break;
            }
            if self.settle(&mut found)?.is_some() {
                failed = margins;
            } else {
                (best, fits) = (found, margins);
            }
        }
        Ok(best)
    }

    /// Searches for a smaller arena of a plan that does not fit; returns the placed module if the arena
    /// still exceeds the limit.
    fn settle(&self, found: &mut Found) -> Result<Option<Module>, PassError> {
        if found.arena <= self.limit {
            return Ok(None);
        }
        let placed = place(&found.module, self.ctx, self.ctx.effort())?;
        found.arena = placed.plan.arenas.first().map(|arena| arena.size).unwrap_or_default();
        Ok((found.arena > self.limit).then_some(placed))
    }

    /// Adds the bytes beyond the limit to the margin of each step without room for them.
    fn widen(&self, margins: &mut [u64], placed: &Module, found: &Found, is_everywhere: bool) {
        let memory = Memory::of(placed, self.ctx.options);
        let (levels, buffers) = (memory.live(placed), memory.buffers);
        let runs: BTreeMap<Node, usize> =
            self.stated.nodes.iter().enumerate().map(|(run, node)| (*node, run)).collect();
        let run_of = |node: &Node| runs.get(&placed.node(*node).recompute_of.unwrap_or(*node)).copied();
        let run_at: Vec<Option<usize>> = placed.graph(placed.main()).nodes.iter().map(run_of).collect();
        let mut wanted = vec![if is_everywhere { found.arena.0 - self.limit.0 } else { 0 }; margins.len()];
        for buffer in &buffers {
            let Some(storage) = placed.plan.storage[buffer.owner] else { continue };
            let over = storage.offset.saturating_add(buffer.bytes).0.saturating_sub(self.limit.0);
            if over == 0 {
                continue;
            }
            let life = buffer.range.start.0 as usize..buffer.range.end.0 as usize;
            let free = |step: &usize| self.limit.0.saturating_sub(levels[*step].0);
            let least = life.clone().map(|step| free(&step)).min().unwrap_or(0);
            // If every step has enough free bytes, they are fragmented, and any step may be the cause.
            let enough = if least < over { over } else { u64::MAX };
            for step in life.filter(|step| free(step) < enough) {
                if let Some(run) = run_at[step] {
                    wanted[run] = wanted[run].max(over);
                }
            }
        }
        for ((margin, wanted), run) in margins.iter_mut().zip(wanted).zip(0..) {
            let need = self.stated.problem.need(run);
            *margin = margin.saturating_add(wanted).min(found.budgeted.capacity.saturating_sub(need));
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use memc_ir::SecondaryMap;

    use super::super::attempt::attempt;
    use super::super::state::state;
    use super::*;
    use memc_passes::Options;

    /// `%a` is needed at both ends, and two more wide values between.
    pub(in super::super) const TEXT: &str = "mem 1\nir_version 10\nopset \"\" 21\n\ngraph @g {\n  input %x : f32[16]\n  const %wide : i64[2] = [16, 16]\n  \
        const %rows : i64[1] = [0]\n  %a = Expand(%x, %wide) : f32[16,16]\n  %s = ReduceMax(%a, %rows) {keepdims = 0} : f32[16]\n  \
        %t = Expand(%s, %wide) : f32[16,16]\n  %u = MatMul(%t, %t) : f32[16,16]\n  %v = ReduceMax(%u, %rows) {keepdims = 0} : f32[16]\n  \
        %w = Mul(%a, %v) : f32[16,16]\n  %y = ReduceMax(%w, %rows) {keepdims = 0} : f32[16]\n  return %y\n}\n";

    #[test]
    fn an_arena_above_the_limit_is_mended_by_recomputation() {
        let module = memc_ir::text::parse(TEXT).unwrap();
        let (options, limit) = (Options::default(), Bytes(2304));
        let mut ctx = PassContext::new(&options, SecondaryMap::default());
        ctx.settings.effort = Some(200);
        let stated = state(&module, &options, &[]);
        let peak = attempt(&module, &ctx, &stated, 1 << 20, 0).unwrap().unwrap().plan.peak;
        let found = attempt(&module, &ctx, &stated, peak, 0).unwrap().unwrap();
        assert!(found.arena > limit && found.plan.events.len() == stated.nodes.len());
        let asked = Asked { module: &module, ctx: &ctx, stated: &stated, limit };
        let mended = asked.mended(found, u64::MAX).unwrap().unwrap();
        assert!(mended.arena <= limit);
        assert_eq!(mended.plan.events.len(), stated.nodes.len() + 1);
        assert!(mended.budgeted.rounds > 1);
        // A plan that takes as long as the known one is given up.
        let takes = mended.budgeted.makespan;
        for (dearest, is_mended) in [(takes, false), (takes + 1, true)] {
            let found = attempt(&module, &ctx, &stated, peak, 0).unwrap().unwrap();
            assert_eq!(asked.mended(found, dearest).unwrap().is_some(), is_mended);
        }
        // A plan that fits stays as it is; an impossible limit is not mended.
        let events = mended.plan.events.clone();
        assert_eq!(asked.mended(mended, u64::MAX).unwrap().unwrap().plan.events, events);
        let found = attempt(&module, &ctx, &stated, peak, 0).unwrap().unwrap();
        assert!(Asked { limit: Bytes(1024), ..asked }.mended(found, u64::MAX).unwrap().is_none());
    }
}
