//! A beam search over the moments of a problem, in one direction of time. It decides on the vertical
//! lines and the holes that end at them.

use std::collections::{BTreeMap, BTreeSet};

use super::embed::Line;
use super::holes::{Choice, Hole, choices};
use super::lines::{Division, MAX_DIVISIONS, Sides, divisions};
use super::tree::{Tree, bundle, freedom, hash, reduce, replace, split, without};

/// A moment at which items end or begin.
pub(super) struct Moment {
    pub ends: Vec<u32>,
    pub begins: Vec<u32>,
}

/// The input of a sweep: sizes of the items, a common divisor of them, the states kept at each moment,
/// and the remaining reductions.
pub(super) struct Sweep<'a> {
    pub size: &'a [u64],
    pub unit: u64,
    pub width: usize,
    pub budget: &'a mut u64,
}

/// Start of a sweep: the possible orders of the live leaves.
#[derive(Clone)]
pub(super) struct Start {
    pub tree: Tree,
    pub holes: Vec<Hole>,
    /// First unused leaf number.
    pub next: u32,
    pub cost: u32,
}

/// All lines of a sweep that reached the last moment.
pub(super) struct Path {
    pub start: usize,
    pub cost: u32,
    pub next: u32,
    pub lines: Vec<Line>,
    /// Sizes of the holes' parts, and the parts of each hole.
    pub size: BTreeMap<u32, u64>,
    pub parts: BTreeMap<u32, Vec<u32>>,
    /// Leaves that live before the last moment.
    pub last: Vec<u32>,
}

/// A line as drawn during the search. Later lines may still split its hole.
#[derive(Clone)]
struct Drawn {
    from: Vec<u32>,
    begins: Vec<u32>,
    hole: Option<Hole>,
    /// A part of a hole that ends here, and the leaf of the hole that it was split from.
    part: Option<(Hole, u32)>,
}

#[derive(Clone)]
struct State {
    at: Start,
    parent: usize,
    drawn: Vec<Drawn>,
    freedom: u64,
}

/// Lines that may extend a state. `plain` is the cost without the orders that they exclude, `cost`
/// includes an estimate of these.
struct Candidate {
    plain: u32,
    cost: u32,
    state: usize,
    division: usize,
    choices: Vec<Choice>,
}

/// Costs above the cheapest state, in eighths of a bit, up to which candidates are searched, one step
/// after the other while there are too few.
const RUNGS: [u32; 12] = [0, 24, 48, 72, 96, 128, 160, 200, 240, 300, 360, 480];

/// Most reductions at one moment for each kept state, so that no moment takes all of them. Values of 10
/// and 40 change nothing.
const MAX_TRIES: u64 = 20;

impl Sweep<'_> {
    /// Sweeps over all moments except the last, at which all items end. Returns the paths that reach it,
    /// the cheapest first.
    pub fn run(&mut self, moments: &[Moment], starts: &[Start]) -> Vec<Path> {
        let first = |(parent, at): (usize, &Start)| State {
            at: at.clone(),
            parent,
            drawn: Vec::new(),
            freedom: freedom(&at.tree),
        };
        let mut beams: Vec<Vec<State>> = vec![starts.iter().enumerate().map(first).collect()];
        let Some((last, others)) = moments.split_last() else { return Vec::new() };
        for moment in others {
            let next = beams.last().map(|beam| self.step(beam, moment)).unwrap_or_default();
            if next.is_empty() {
                return Vec::new();
            }
            beams.push(next);
        }
        let count = beams.last().map_or(0, Vec::len);
        let mut paths: Vec<Path> = (0..count).filter_map(|state| path(&beams, state, last)).collect();
        paths.sort_by_key(|path| path.cost);
        paths
    }

    /// Returns the states after a moment. The cheapest candidates are tried first.
    fn step(&mut self, beam: &[State], moment: &Moment) -> Vec<State> {
        let divisions = divisions(&moment.ends, &moment.begins, self.size, self.unit);
        let mut fitting: Vec<Fitting> =
            beam.iter().map(|state| Fitting::new(state, self.size.len())).collect();
        let base = beam.iter().map(|state| state.at.cost).min().unwrap_or(0);
        let mut left = (self.width as u64).saturating_mul(MAX_TRIES).min(*self.budget);
        *self.budget -= left;
        let (mut found, mut seen, mut low): (Vec<State>, BTreeSet<u64>, u32) =
            (Vec::new(), BTreeSet::new(), 0);
        for rung in RUNGS {
            let mut candidates = self.candidates(beam, &divisions, &mut fitting, low..=base + rung);
            candidates
                .sort_by_key(|candidate| (candidate.cost, std::cmp::Reverse(beam[candidate.state].freedom)));
            for candidate in candidates {
                if found.len() >= self.width || left == 0 {
                    break;
                }
                let Some(state) = self.draw(beam, &divisions, &candidate, &mut left) else { continue };
                if seen.insert(self.code(&state.at)) {
                    found.push(state);
                }
            }
            if found.len() >= self.width || left == 0 {
                break;
            }
            low = base + rung + 1;
        }
        *self.budget += left;
        found
    }

    /// Returns the candidates within a range of costs.
    fn candidates(
        &self,
        beam: &[State],
        divisions: &[Division],
        fitting: &mut [Fitting],
        costs: std::ops::RangeInclusive<u32>,
    ) -> Vec<Candidate> {
        let mut list = Vec::new();
        for ((state, data), fitting) in beam.iter().enumerate().zip(fitting) {
            for (division, lines) in divisions.iter().enumerate() {
                let plain = data.at.cost + lines.cost;
                let Some(lost) = fitting.lost(&lines.lines, costs.end().checked_sub(plain)) else { continue };
                let ways = self.ways(&data.at.holes, &lines.lines, plain + lost, *costs.end());
                let within = ways.into_iter().filter(|(cost, _)| costs.contains(cost));
                list.extend(within.map(|(cost, choices)| Candidate {
                    plain: cost - lost,
                    cost,
                    state,
                    division,
                    choices,
                }));
            }
        }
        list
    }

    /// Returns the holes that may end at each of some lines, with the total cost.
    fn ways(&self, holes: &[Hole], lines: &[Sides], cost: u32, most: u32) -> Vec<(u32, Vec<Choice>)> {
        let mut ways = vec![(cost, Vec::new())];
        for (ends, begins) in lines {
            let mut next = Vec::new();
            for (cost, taken) in &ways {
                let free = still_free(holes, taken);
                for choice in choices(&free, self.sum(ends), self.sum(begins), most - cost) {
                    next.push((cost + choice.cost, taken.iter().cloned().chain([choice]).collect()));
                }
                if next.len() > MAX_DIVISIONS {
                    break;
                }
            }
            ways = next;
        }
        ways
    }

    fn sum(&self, items: &[u32]) -> u64 {
        items.iter().map(|item| self.size[*item as usize]).sum()
    }

    /// Draws a candidate's lines; returns `None` if the leaves that end at a line cannot be consecutive.
    fn draw(
        &self,
        beam: &[State],
        divisions: &[Division],
        candidate: &Candidate,
        left: &mut u64,
    ) -> Option<State> {
        let mut at = Start { cost: candidate.plain, ..beam[candidate.state].at.clone() };
        let mut drawn = Vec::new();
        for (sides, choice) in divisions[candidate.division].lines.iter().zip(&candidate.choices) {
            *left = left.saturating_sub(1);
            drawn.push(draw_line(&mut at, sides, choice)?);
        }
        let freedom = freedom(&at.tree);
        Some(State { at, parent: candidate.state, drawn, freedom })
    }

    /// Returns a hash that is equal for states that continue alike. Holes of one size count as equal.
    fn code(&self, at: &Start) -> u64 {
        let count = self.size.len() as u32;
        let size = |leaf: u32| at.holes.iter().find(|hole| hole.leaf == leaf).map_or(0, |hole| hole.size);
        hash(&at.tree, &|leaf| if leaf < count { u64::from(leaf) } else { 1 << 63 | size(leaf) })
    }
}

/// Finds which items of a state can end at one line if holes are placed as needed, and the freedom that
/// this loses.
struct Fitting {
    tree: Option<Tree>,
    freedom: u64,
    marked: Vec<bool>,
    known: BTreeMap<Vec<u32>, Option<u32>>,
}

impl Fitting {
    fn new(state: &State, items: usize) -> Self {
        let tree = without(&state.at.tree, items as u32);
        let freedom = tree.as_ref().map_or(0, freedom);
        Self { tree, freedom, marked: vec![false; items], known: BTreeMap::new() }
    }

    /// Returns the sum of the freedom that each line loses by itself. Returns `None` if a line cannot be
    /// drawn or the sum is above `most`.
    fn lost(&mut self, lines: &[Sides], most: Option<u32>) -> Option<u32> {
        let most = most?;
        lines
            .iter()
            .try_fold(0, |lost, (ends, _)| Some(lost + self.lost_by(ends)?).filter(|lost| *lost <= most))
    }

    fn lost_by(&mut self, ends: &[u32]) -> Option<u32> {
        let Some(tree) = self.tree.as_ref().filter(|_| ends.len() > 1) else { return Some(0) };
        if let Some(lost) = self.known.get(ends) {
            return *lost;
        }
        ends.iter().for_each(|item| self.marked[*item as usize] = true);
        let lost =
            reduce(tree, &self.marked).map(|reduced| self.freedom.saturating_sub(freedom(&reduced)) as u32);
        ends.iter().for_each(|item| self.marked[*item as usize] = false);
        self.known.insert(ends.to_vec(), lost);
        lost
    }
}

/// Returns the holes, or the remainders of holes, that are not taken.
fn still_free(holes: &[Hole], taken: &[Choice]) -> Vec<Hole> {
    let used = |leaf: u32| {
        taken
            .iter()
            .filter_map(|choice| choice.part)
            .filter(|part| part.0 == leaf)
            .map(|part| part.1)
            .sum::<u64>()
    };
    let is_whole = |hole: &&Hole| !taken.iter().any(|choice| choice.whole.contains(&hole.leaf));
    holes.iter().filter(is_whole).map(|hole| Hole { size: hole.size - used(hole.leaf), ..*hole }).collect()
}

/// Draws one line, if the leaves that end at it can be consecutive. The cost rises as fewer of the
/// orders allow this: after a wrong line, leaves are adjacent only by chance.
fn draw_line(at: &mut Start, (ends, begins): &Sides, choice: &Choice) -> Option<Drawn> {
    let mut tree = at.tree.clone();
    let mut from: Vec<u32> = ends.iter().chain(&choice.whole).copied().collect();
    let mut part = None;
    // Split off the part of a hole that ends here.
    if let Some((leaf, size)) = choice.part {
        let own = Hole { leaf: at.next, size };
        at.next += 1;
        tree = split(&tree, leaf, own.leaf);
        at.holes.iter_mut().filter(|hole| hole.leaf == leaf).for_each(|hole| hole.size -= size);
        from.push(own.leaf);
        part = Some((own, leaf));
    }
    // Make the ending leaves consecutive and replace them by the beginning ones.
    let mut marked = vec![false; at.next as usize];
    from.iter().for_each(|leaf| marked[*leaf as usize] = true);
    let reduced = reduce(&tree, &marked)?;
    at.cost += freedom(&tree).saturating_sub(freedom(&reduced)) as u32;
    at.holes.retain(|hole| !marked[hole.leaf as usize]);
    let hole = (choice.rest > 0).then_some(Hole { leaf: at.next, size: choice.rest });
    at.next += u32::from(hole.is_some());
    at.holes.extend(hole);
    at.tree = replace(&reduced, &marked, &bundle(begins.iter().copied().chain(hole.map(|hole| hole.leaf))));
    Some(Drawn { from, begins: begins.clone(), hole, part })
}

/// Returns the lines that led to a state of the last beam. Each hole is cut, from its beginning on, into
/// the parts that end in different places.
fn path(beams: &[Vec<State>], state: usize, last: &Moment) -> Option<Path> {
    let mut chain = Vec::new();
    let mut at = state;
    for beam in beams.iter().rev() {
        chain.push(&beam[at]);
        at = beam[at].parent;
    }
    chain.reverse();
    let (first, end) = (chain.first()?, chain.last()?);
    let mut size: BTreeMap<u32, u64> = BTreeMap::new();
    let mut origin: BTreeMap<u32, u32> = BTreeMap::new();
    let drawn = || chain.iter().flat_map(|state| &state.drawn);
    for hole in first.at.holes.iter().chain(drawn().filter_map(|line| line.hole.as_ref())) {
        size.insert(hole.leaf, hole.size);
        origin.insert(hole.leaf, hole.leaf);
    }
    for (part, of) in drawn().filter_map(|line| line.part) {
        size.insert(part.leaf, part.size);
        size.entry(of).and_modify(|size| *size -= part.size);
        origin.insert(part.leaf, *origin.get(&of)?);
    }
    let mut parts: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    origin.iter().for_each(|(leaf, of)| parts.entry(*of).or_default().push(*leaf));
    let begun = |line: &Drawn| {
        let hole = line.hole.and_then(|hole| parts.get(&hole.leaf)).into_iter().flatten();
        line.begins.iter().chain(hole).copied().collect()
    };
    let lines = drawn().map(|line| Line { from: line.from.clone(), to: begun(line) }).collect();
    let living = last.ends.iter().copied().chain(end.at.holes.iter().map(|hole| hole.leaf)).collect();
    Some(Path { start: first.parent, cost: end.at.cost, next: end.at.next, lines, size, parts, last: living })
}
