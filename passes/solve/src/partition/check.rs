//! The independent checker of partitions: reads loads and bytes off the definition, with sets, and
//! shares no code with the solvers.

use std::collections::BTreeSet;

use thiserror::Error;

use super::problem::{Arrangement, Objective, Problem, Solution};

/// Time and bytes of one section.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Time of its nodes, replicas and transfers.
    pub time: u64,
    /// Bytes that its device holds.
    pub bytes: u64,
}

/// Reason why a partition is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Violation {
    /// A node is in no section, in two, or does not exist.
    #[error("node {node} is in {count} sections")]
    Count {
        /// Index of the node.
        node: u32,
        /// Number of sections that have it.
        count: usize,
    },
    /// A device does not exist, has two sections, or comes against the given arrangement.
    #[error("device {device} of section {section} does not exist, has two sections, or is out of turn")]
    WrongDevice {
        /// Position of the section.
        section: usize,
        /// Index of its device.
        device: u32,
    },
    /// A section has no nodes.
    #[error("section {section} is empty")]
    Empty {
        /// Position of the section.
        section: usize,
    },
    /// Nodes that must share a device are apart.
    #[error("nodes {first} and {second} must run on one device")]
    Apart {
        /// A node of the set.
        first: u32,
        /// A node of the set in another section.
        second: u32,
    },
    /// A forward value would flow to an earlier section.
    #[error("node {reader} reads a value of node {maker}, which is in a later section")]
    Backward {
        /// Node that makes the value.
        maker: u32,
        /// Node that reads it too early.
        reader: u32,
    },
    /// A device cannot run a node.
    #[error("node {node} cannot run on device {device}")]
    Unsupported {
        /// Index of the node.
        node: u32,
        /// Index of the device.
        device: u32,
    },
    /// A device holds more bytes than it has.
    #[error("device {device} holds {bytes} bytes, its capacity is {capacity}")]
    AboveCapacity {
        /// Index of the device.
        device: u32,
        /// Bytes that its section needs.
        bytes: u64,
        /// Bytes that it has.
        capacity: u64,
    },
    /// The stated value differs from the actual one.
    #[error("the stated value is {stated}, the actual value is {actual}")]
    WrongValue {
        /// Value of the solution.
        stated: u64,
        /// Value by the definition.
        actual: u64,
    },
}

/// Checks a partition. O(sections · (nodes + readers) log nodes).
///
/// # Errors
/// Returns the first rule that is broken.
pub fn check(problem: &Problem, solution: &Solution) -> Result<(), Violation> {
    let mut place: Vec<Vec<usize>> = vec![Vec::new(); problem.nodes.len()];
    let mut taken = BTreeSet::new();
    let mut last = None;
    for (index, section) in solution.sections.iter().enumerate() {
        let is_in_turn =
            problem.arrangement == Arrangement::Any || last.is_none_or(|last| last < section.device);
        if section.device as usize >= problem.devices.len() || !taken.insert(section.device) || !is_in_turn {
            return Err(Violation::WrongDevice { section: index, device: section.device });
        }
        last = Some(section.device);
        if section.nodes.is_empty() {
            return Err(Violation::Empty { section: index });
        }
        for &node in &section.nodes {
            place.get_mut(node as usize).ok_or(Violation::Count { node, count: 0 })?.push(index);
        }
    }
    if let Some((node, sections)) = place.iter().enumerate().find(|(_, sections)| sections.len() != 1) {
        return Err(Violation::Count { node: node as u32, count: sections.len() });
    }
    let place: Vec<usize> = place.into_iter().flatten().collect();
    for set in &problem.together {
        let apart = set.iter().find(|node| place[**node as usize] != place[set[0] as usize]);
        if let Some(&second) = apart {
            return Err(Violation::Apart { first: set[0], second });
        }
    }
    let is_forward = |node: &u32| !problem.nodes[*node as usize].is_backward;
    for value in problem.values.iter().filter(|value| is_forward(&value.maker)) {
        let early =
            |reader: &&u32| is_forward(reader) && place[**reader as usize] < place[value.maker as usize];
        if let Some(&reader) = value.readers.iter().find(early) {
            return Err(Violation::Backward { maker: value.maker, reader });
        }
    }
    let mut actual = 0;
    for (section, load) in solution.sections.iter().zip(loads(problem, solution)?) {
        let device = &problem.devices[section.device as usize];
        if let Some(capacity) = device.capacity.filter(|capacity| load.bytes > *capacity) {
            return Err(Violation::AboveCapacity { device: section.device, bytes: load.bytes, capacity });
        }
        actual = actual.max(match problem.objective {
            Objective::Time => load.time,
            Objective::Bytes => load.bytes,
        });
    }
    if actual == solution.value {
        Ok(())
    } else {
        Err(Violation::WrongValue { stated: solution.value, actual })
    }
}

/// Returns time and bytes of each section, from the definition. O(sections · (nodes + readers) log
/// nodes).
///
/// # Errors
/// Refuses unknown nodes and devices, and nodes that their device cannot run.
pub fn loads(problem: &Problem, solution: &Solution) -> Result<Vec<Load>, Violation> {
    let mut found = Vec::new();
    for (index, section) in solution.sections.iter().enumerate() {
        let wrong = Violation::WrongDevice { section: index, device: section.device };
        let device = problem.devices.get(section.device as usize).ok_or(wrong)?;
        let inside: BTreeSet<u32> = section.nodes.iter().copied().collect();
        let from_end = match problem.arrangement {
            Arrangement::Given => problem.devices.len() - section.device as usize,
            Arrangement::Any => solution.sections.len() - index,
        };
        let copies = problem.pipeline.copies(from_end as u64);
        let mut load = Load::default();
        let mut working = 0;
        for &node in &inside {
            let item = problem.nodes.get(node as usize).ok_or(Violation::Count { node, count: 0 })?;
            let time = item.times.get(device.kind as usize).copied().flatten();
            load.time += time.ok_or(Violation::Unsupported { node, device: section.device })?;
            load.bytes += item.held_bytes + item.copy_bytes * copies;
            working = working.max(item.working_bytes);
        }
        load.bytes += working;
        for replica in
            problem.replicas.iter().filter(|replica| replica.readers.iter().any(|node| inside.contains(node)))
        {
            load.time += replica.times.get(device.kind as usize).copied().unwrap_or(0);
            load.bytes += replica.bytes;
        }
        let leaves = |value: &&super::problem::Value| match inside.contains(&value.maker) {
            true => value.readers.iter().any(|reader| !inside.contains(reader)),
            false => value.readers.iter().any(|reader| inside.contains(reader)),
        };
        if let Some(link) = device.link {
            let crossing = problem.values.iter().filter(leaves);
            let (count, amount) =
                crossing.fold((0, 0), |(count, amount), value| (count + 1, amount + value.amount));
            let moved = u128::from(amount) * u128::from(link.time);
            load.time += count * link.latency + moved.div_ceil(u128::from(link.amount)) as u64;
        }
        found.push(load);
    }
    Ok(found)
}
