//! More parts for regions of plans for ranges: few large parts dominate small extents, above all slices of
//! weights, which keep their bytes at all extents.

use std::collections::BTreeSet;

use super::region::Region;
use super::rounds::{Draft, Rounds, State};
use super::search::Search;
use super::seed::Lie;

/// Facts that regions of equal layers share: number of parts, axis and its extent, number of nodes.
type Likeness = (u64, usize, u64, usize);

impl<'c, 'o> Rounds<'c, 'o> {
    /// Computes the regions of a plan for ranges in more parts, equal layers at once, while that is worth its
    /// time at the largest extents and at small ones. `chosen` are the regions of earlier rounds.
    pub(super) fn finer(
        &mut self,
        given: &Draft<'c, 'o>,
        chosen: &[Region],
        search: &mut Search<'_>,
        (mut state, mut regions): (State, Vec<Region>),
    ) -> (State, Vec<Region>) {
        if self.room.is_some() || given.module.domain().is_empty() {
            return (state, regions);
        }
        let score = |rounds: &Self, state: &State| state.ranged(&rounds.goal(), rounds.ctx.options);
        let mut best = score(self, &state);
        let likenesses: BTreeSet<Likeness> =
            regions.iter().filter_map(|region| search.likeness_of(region)).collect();
        for mut likeness in likenesses {
            while let Some(next) = search.in_more_parts(&regions, likeness) {
                let Some(found) = self.judged(given, chosen.iter().chain(&next), None) else { break };
                let found_score = score(self, &found);
                if found_score >= best {
                    break;
                }
                likeness.0 = next
                    .iter()
                    .zip(&regions)
                    .find(|(new, old)| new.parts != old.parts)
                    .map_or(0, |(new, _)| new.parts);
                (state, regions, best) = (found, next, found_score);
            }
        }
        (state, regions)
    }
}

impl Search<'_> {
    /// Returns what a region has in common with regions of equal layers; `None` if its shares are not equal.
    fn likeness_of(&self, region: &Region) -> Option<Likeness> {
        let seed = region.seed;
        let extent = *self.dims(seed.value).get(seed.axis)?;
        (seed.lie == Lie::Equal).then_some((region.parts, seed.axis, extent, region.nodes.len()))
    }

    /// Returns the regions with the next number of parts for those of a likeness; `None` if there is none.
    fn in_more_parts(&mut self, regions: &[Region], likeness: Likeness) -> Option<Vec<Region>> {
        let mut changed = false;
        let finer = |region: &Region| {
            let more =
                if self.likeness_of(region) == Some(likeness) { self.with_more_parts(region) } else { None };
            changed |= more.is_some();
            more.unwrap_or_else(|| region.clone())
        };
        let all = regions.iter().map(finer).collect();
        changed.then_some(all)
    }
}
