//! The dynamic program: the best way to divide the groups behind each down-set over each choice of
//! devices.

use super::down_sets::DownSets;
use super::merged::Merged;
use super::piece::Piece;
use super::problem::{Objective, Section, Solution};

/// A device of this sort gets the groups up to the next down-set.
#[derive(Clone, Copy, Debug)]
struct Choice {
    next: u32,
    sort: u32,
}

/// What the devices at the end have been used for: one code for each choice of devices.
#[derive(Debug)]
struct Codes {
    count: usize,
    /// For each code, the sorts of device that may come before, and the code with that device.
    before: Vec<Vec<(u32, usize)>>,
    /// Number of devices of each code.
    used: Vec<u64>,
}

impl Codes {
    fn new(merged: &Merged<'_>) -> Self {
        if merged.is_given() {
            let count = merged.sort_of.len() + 1;
            let from_end =
                |code: usize| merged.sort_of.iter().rev().nth(code).map(|sort| (*sort as u32, code + 1));
            let before = (0..count).map(|code| from_end(code).into_iter().collect()).collect();
            return Self { count, before, used: (0..count as u64).collect() };
        }
        // One digit a sort: the number of its devices in use.
        let mut available = vec![0_usize; merged.sorts.len()];
        merged.sort_of.iter().for_each(|sort| available[*sort] += 1);
        let count = available.iter().map(|number| number + 1).product();
        let (mut before, mut used) = (vec![Vec::new(); count], vec![0; count]);
        for code in 0..count {
            let mut weight = 1;
            for (sort, number) in available.iter().enumerate() {
                let digit = code / weight % (number + 1);
                used[code] += digit as u64;
                if digit < *number {
                    before[code].push((sort as u32, code + weight));
                }
                weight *= number + 1;
            }
        }
        Self { count, before, used }
    }
}

/// Largest number of entries of the table: 12 bytes each.
const MAX_ENTRIES: usize = 1 << 25;

/// Answer of the program.
#[derive(Debug)]
pub(super) enum Answer {
    /// Best division below the upper bound.
    Better(Solution),
    /// Every division reaches the upper bound.
    None,
    /// Visits or memory ran out.
    Unfinished,
}

/// Finds the best division with a value below `upper`. Each visit is one piece: the groups between two
/// down-sets. O(visits · codes · sorts), with pieces that already reach `upper` left out.
pub(super) fn divide(merged: &Merged<'_>, sets: &DownSets, upper: u64, visits: &mut u64) -> Answer {
    let codes = Codes::new(merged);
    if sets.len().checked_mul(codes.count).is_none_or(|entries| entries > MAX_ENTRIES) {
        return Answer::Unfinished;
    }
    let full = sets.len() - 1;
    let mut best = vec![u64::MAX; sets.len() * codes.count];
    let mut choices = vec![Choice { next: 0, sort: 0 }; sets.len() * codes.count];
    if merged.is_given() {
        best[full * codes.count..].fill(0);
    } else {
        best[full * codes.count] = 0;
    }
    let mut walk = Walk { merged, sets, codes: &codes, piece: Piece::new(merged), upper, stack: Vec::new() };
    for set in (0..full).rev() {
        let (own, later) = best.split_at_mut((set + 1) * codes.count);
        let row = set * codes.count..(set + 1) * codes.count;
        if !walk.extend(set as u32, &mut own[row.clone()], later, &mut choices[row.clone()], visits) {
            return Answer::Unfinished;
        }
        if merged.is_given() {
            // A device may stay empty.
            for code in row.start..row.end - 1 {
                if best[code] < best[code + 1] {
                    best[code + 1] = best[code];
                    choices[code + 1] = Choice { next: set as u32, sort: u32::MAX };
                }
            }
        }
    }
    let code = (0..codes.count).min_by_key(|code| best[*code]).unwrap_or(0);
    let code = if merged.is_given() { codes.count - 1 } else { code };
    match best[code] {
        value if value < upper => Answer::Better(trace(merged, sets, &codes, &choices, code, value)),
        _ => Answer::None,
    }
}

/// A walk over all down-sets that contain one.
struct Walk<'w, 'p> {
    merged: &'w Merged<'p>,
    sets: &'w DownSets,
    codes: &'w Codes,
    piece: Piece<'w, 'p>,
    upper: u64,
    /// Down-set, position of its next step, and the group that led to it.
    stack: Vec<(u32, usize, u32)>,
}

impl Walk<'_, '_> {
    /// Extends the piece behind `set` in each way; `later` has the rows of the sets after it. Returns
    /// whether visits sufficed.
    fn extend(
        &mut self,
        set: u32,
        own: &mut [u64],
        later: &[u64],
        choices: &mut [Choice],
        visits: &mut u64,
    ) -> bool {
        self.stack.push((set, 0, u32::MAX));
        while let Some((at, next, group)) = self.stack.last_mut() {
            let least = if *group == u32::MAX { None } else { Some(self.sets.ranks[*group as usize]) };
            let Some(&(step, larger)) = self.sets.steps(*at).get(*next) else {
                if *group != u32::MAX {
                    self.piece.take_back(*group);
                }
                self.stack.pop();
                continue;
            };
            *next += 1;
            // Steps of increasing ranks reach each larger set once.
            if least.is_some_and(|least| self.sets.ranks[step as usize] <= least) {
                continue;
            }
            let Some(left) = visits.checked_sub(1) else {
                self.stack.clear();
                return false;
            };
            *visits = left;
            self.piece.add(step);
            if self.is_too_large() {
                self.piece.take_back(step);
                continue;
            }
            let row = (larger - set - 1) as usize * self.codes.count;
            self.improve(larger, own, &later[row..row + self.codes.count], choices);
            self.stack.push((larger, 0, step));
        }
        true
    }

    /// Whether this piece and all larger ones reach the upper bound or exceed every capacity.
    fn is_too_large(&self) -> bool {
        let least = match self.merged.problem.objective {
            Objective::Time => self.piece.least_time(),
            Objective::Bytes => self.piece.bytes(1),
        };
        let capacity =
            self.merged.sorts.iter().map(|sort| sort.capacity.unwrap_or(u64::MAX)).max().unwrap_or(0);
        least >= self.upper || self.piece.bytes(1) > capacity
    }

    /// Puts the piece in front of what is known behind it.
    fn improve(&self, next: u32, own: &mut [u64], later: &[u64], choices: &mut [Choice]) {
        for (sort, device) in self.merged.sorts.iter().enumerate() {
            let Some(time) = self.piece.time(sort) else { continue };
            if self.merged.problem.objective == Objective::Time && time >= self.upper {
                continue;
            }
            let capacity = device.capacity.unwrap_or(u64::MAX);
            for (code, &behind) in later.iter().enumerate().filter(|(_, behind)| **behind < self.upper) {
                for &(_, with) in self.codes.before[code].iter().filter(|(other, _)| *other as usize == sort)
                {
                    let bytes = self.piece.bytes(self.merged.problem.pipeline.copies(self.codes.used[with]));
                    let value = match self.merged.problem.objective {
                        Objective::Time => time,
                        Objective::Bytes => bytes,
                    };
                    let value = value.max(behind);
                    if bytes <= capacity && value < own[with] && value < self.upper {
                        own[with] = value;
                        choices[with] = Choice { next, sort: sort as u32 };
                    }
                }
            }
        }
    }
}

/// Follows the choices from the empty set.
fn trace(
    merged: &Merged<'_>,
    sets: &DownSets,
    codes: &Codes,
    choices: &[Choice],
    code: usize,
    value: u64,
) -> Solution {
    let (mut set, mut code) = (0_u32, code);
    let mut free: Vec<Vec<u32>> = vec![Vec::new(); merged.sorts.len()];
    merged.sort_of.iter().enumerate().rev().for_each(|(device, sort)| free[*sort].push(device as u32));
    let mut solution = Solution { sections: Vec::new(), value };
    while (set as usize) < sets.len() - 1 {
        let choice = choices[set as usize * codes.count + code];
        if choice.sort == u32::MAX {
            code -= 1;
            continue;
        }
        let device = if merged.is_given() {
            (merged.sort_of.len() - code) as u32
        } else {
            free[choice.sort as usize].pop().unwrap_or(0)
        };
        let mut nodes: Vec<u32> = between(sets, set, choice.next)
            .iter()
            .flat_map(|group| merged.groups[*group as usize].nodes.clone())
            .collect();
        nodes.sort_unstable();
        solution.sections.push(Section { device, nodes });
        let behind = codes.before.iter().position(|before| before.contains(&(choice.sort, code)));
        (set, code) = (choice.next, behind.unwrap_or(0));
    }
    solution
}

/// Returns the groups between two down-sets: the steps of increasing ranks from one to the other.
fn between(sets: &DownSets, from: u32, to: u32) -> Vec<u32> {
    let mut stack: Vec<(u32, usize, u32)> = vec![(from, 0, u32::MAX)];
    while let Some((at, next, group)) = stack.last_mut() {
        if *at == to {
            return stack.iter().skip(1).map(|(_, _, group)| *group).collect();
        }
        let least = if *group == u32::MAX { None } else { Some(sets.ranks[*group as usize]) };
        // Sets are numbered by size, so a later number cannot lead back.
        let Some(&(step, larger)) = sets.steps(*at).get(*next).filter(|_| *at < to) else {
            stack.pop();
            continue;
        };
        *next += 1;
        if least.is_none_or(|least| sets.ranks[step as usize] > least) && larger <= to {
            stack.push((larger, 0, step));
        }
    }
    Vec::new()
}
