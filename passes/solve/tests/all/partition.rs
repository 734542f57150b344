//! Tests of partition: public instances with known optima, brute force, the checker against faults, and
//! laws of devices and capacities.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use memc_solve::partition::{
    self, Arrangement, Device, Link, Node, Objective, Pipeline, Problem, ProblemError, Replica, Section,
    Solution, Value, Violation, json,
};
use memc_solve::{Limit, Status};
use proptest::prelude::*;

/// Instances of `tests/partition`, and the smallest largest load of a contiguous division.
const INSTANCES: &[(&str, f64)] = &[
    ("bert24_inference", 17.789_906_25),
    ("bert24_training", 41.745_812_5),
    ("resnet50_inference", 33.774_666_015_625),
    ("gnmt_inference", 32.910_658_203_125),
    ("gnmt_training", 107.004_414_062_5),
    ("bert_l-3_inference", 27.918_567_679_912_5),
];

fn instance(name: &str) -> json::File {
    let path = format!("{}/tests/partition/{name}.json", env!("CARGO_MANIFEST_DIR"));
    json::read(&std::fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn public_instances_reach_their_optimum_and_prove_it() {
    for (name, optimum) in INSTANCES {
        let problem = instance(name).problem().unwrap();
        let outcome = partition::solve(&problem, &Limit::default()).unwrap();
        let solution = outcome.solution.as_ref().unwrap();
        partition::check(&problem, solution).unwrap();
        assert_eq!((outcome.value, outcome.status()), (Some(outcome.lower_bound), Status::Optimal), "{name}");
        assert!(
            (outcome.lower_bound as f64 / 1e12 - optimum).abs() < 1e-9,
            "{name}: {}",
            outcome.lower_bound
        );
        assert!(outcome.effort < 2000, "{name}: {}", outcome.effort);
        assert_eq!(partition::solve(&problem, &Limit::default()).unwrap(), outcome);
        // Runs of one order come within half a percent.
        let linear = partition::linear(&problem).unwrap();
        partition::check(&problem, linear.solution.as_ref().unwrap()).unwrap();
        assert!(
            linear.value.unwrap() as f64 <= outcome.lower_bound as f64 * 1.005,
            "{name}: {:?}",
            linear.value
        );
    }
}

#[test]
fn without_effort_the_answer_is_that_of_the_orders() {
    let problem = instance("bert_l-3_inference").problem().unwrap();
    let outcome = partition::solve(&problem, &Limit::nodes(10)).unwrap();
    assert_eq!(
        (outcome.status(), outcome.value),
        (Status::Feasible, partition::linear(&problem).unwrap().value)
    );
    assert!(Some(outcome.lower_bound) < outcome.value);
}

/// Returns the smallest objective by trying every map from nodes to devices, and every order of devices.
fn brute_force(problem: &Problem) -> Option<u64> {
    let (nodes, devices) = (problem.nodes.len(), problem.devices.len());
    let mut orders: Vec<Vec<u32>> = vec![(0..devices as u32).collect()];
    if problem.arrangement == Arrangement::Any {
        let mut more = orders.clone();
        while let Some(order) = more.pop() {
            for i in 0..devices {
                for j in 0..i {
                    let mut other = order.clone();
                    other.swap(i, j);
                    if !orders.contains(&other) {
                        orders.push(other.clone());
                        more.push(other);
                    }
                }
            }
        }
    }
    let mut best = None;
    for code in 0..devices.pow(nodes as u32) {
        let place: Vec<u32> =
            (0..nodes).map(|node| (code / devices.pow(node as u32) % devices) as u32).collect();
        for order in &orders {
            let sections = order.iter().map(|device| Section {
                device: *device,
                nodes: (0..nodes as u32).filter(|node| place[*node as usize] == *device).collect(),
            });
            let mut solution = Solution {
                sections: sections.filter(|section| !section.nodes.is_empty()).collect(),
                value: 0,
            };
            let value = match partition::check(problem, &solution) {
                Ok(()) => 0,
                Err(Violation::WrongValue { actual, .. }) => actual,
                Err(_) => continue,
            };
            solution.value = value;
            partition::check(problem, &solution).unwrap();
            best = Some(best.map_or(value, |best: u64| best.min(value)));
        }
    }
    best
}

/// Small problems with everything that a problem may have.
fn problem() -> impl Strategy<Value = Problem> {
    let node = (
        prop::option::weighted(0.95, 0..4_u64),
        0..6_u64,
        0..4_u64,
        0..3_u64,
        0..3_u64,
        prop::bool::weighted(0.4),
    );
    let value = (0..6_u32, prop::collection::vec(0..6_u32, 1..3), 0..5_u64);
    let replica = (0..5_u64, prop::option::of(0..3_u64), prop::collection::vec(0..6_u32, 0..3));
    let device =
        (0..2_u32, prop::option::weighted(0.3, 4..30_u64), prop::option::of((0..2_u64, 1..3_u64, 1..3_u64)));
    (
        prop::collection::vec(node, 1..6),
        prop::collection::vec(value, 0..7),
        prop::collection::vec(replica, 0..3),
        prop::collection::vec(device, 1..4),
        (any::<bool>(), any::<bool>(), 1..4_u64, any::<bool>(), any::<bool>(), 0..6_u32),
    )
        .prop_map(
            |(
                nodes,
                values,
                replicas,
                devices,
                (is_any, is_bytes, micro_batches, alternates, has_backward, pair),
            )| {
                let count = nodes.len() as u32;
                let mut problem = Problem {
                    nodes: nodes
                        .into_iter()
                        .map(|(first, second, held, copy, working, is_free)| match is_free {
                            true => Node { times: vec![Some(0), Some(0)], ..Node::default() },
                            false => Node {
                                times: vec![first, Some(second)],
                                held_bytes: held,
                                copy_bytes: copy,
                                working_bytes: working,
                                is_backward: false,
                            },
                        })
                        .collect(),
                    values: values
                        .into_iter()
                        .map(|(maker, readers, amount)| Value {
                            maker: maker % count,
                            readers: readers.into_iter().map(|reader| reader % count).collect(),
                            amount,
                        })
                        .collect(),
                    replicas: replicas
                        .into_iter()
                        .map(|(bytes, time, readers)| Replica {
                            bytes,
                            times: time.map(|time| vec![time, time]).unwrap_or_default(),
                            readers: readers.into_iter().map(|reader| reader % count).collect(),
                        })
                        .collect(),
                    devices: devices
                        .into_iter()
                        .map(|(kind, capacity, link)| Device {
                            kind,
                            capacity,
                            link: link.map(|(latency, amount, time)| Link { latency, amount, time }),
                        })
                        .collect(),
                    arrangement: if is_any { Arrangement::Any } else { Arrangement::Given },
                    objective: if is_bytes { Objective::Bytes } else { Objective::Time },
                    pipeline: match alternates {
                        true => Pipeline::Alternating { micro_batches },
                        false => Pipeline::Filled { micro_batches },
                    },
                    together: Vec::new(),
                };
                // Values flow from earlier to later nodes; cycles are merged, which other cases cover.
                for value in &mut problem.values {
                    let first = value.readers.iter().copied().chain([value.maker]).min().unwrap_or(0);
                    value.readers.push(value.maker);
                    value.maker = first;
                    value.readers.retain(|reader| *reader != first);
                }
                if has_backward && count > 2 {
                    // The last node goes back to another one.
                    problem.nodes[count as usize - 1].is_backward = true;
                    problem.together.push(vec![pair % (count - 1), count - 1]);
                } else if pair % 3 == 0 && count > 1 {
                    problem.together.push(vec![pair % count, (pair + 1) % count]);
                }
                problem
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn small_problems_hold_against_brute_force(problem in problem()) {
        let best = brute_force(&problem);
        let outcome = partition::solve(&problem, &Limit::default()).unwrap();
        prop_assert_eq!(outcome.value, best);
        match &outcome.solution {
            Some(solution) => {
                partition::check(&problem, solution).unwrap();
                prop_assert_eq!(outcome.status(), Status::Optimal);
            }
            None => prop_assert_eq!(outcome.status(), Status::Infeasible),
        }
        let linear = partition::linear(&problem).unwrap();
        prop_assert!(linear.lower_bound <= best.unwrap_or(u64::MAX));
        if let Some(solution) = &linear.solution {
            partition::check(&problem, solution).unwrap();
            prop_assert!(Some(solution.value) >= best);
        }
    }

    #[test]
    fn more_is_never_worse(problem in problem()) {
        let value = |problem: &Problem| partition::solve(problem, &Limit::default()).unwrap().value.unwrap_or(u64::MAX);
        let before = value(&problem);
        let mut larger = problem.clone();
        larger.devices.iter_mut().for_each(|device| device.capacity = device.capacity.map(|bytes| bytes + 5));
        prop_assert!(value(&larger) <= before);
        let mut faster = problem.clone();
        faster.devices.iter_mut().for_each(|device| device.link = device.link.map(|link| Link { time: 1, amount: 2, ..link }));
        if problem.devices.iter().all(|device| device.link.is_none_or(|link| link.time * 2 >= link.amount)) {
            prop_assert!(value(&faster) <= before);
        }
        // One more device in front: sections count from the end.
        let mut more = problem.clone();
        more.devices.insert(0, problem.devices[0].clone());
        prop_assert!(value(&more) <= before);
    }
}

/// Smallest load of a chain of three nodes on two devices, the middle one of which costs nothing; `extra`
/// also reads the first value.
fn chain(amounts: (u64, u64), extra: Option<u64>) -> u64 {
    let node = |time| Node { times: vec![Some(time)], ..Node::default() };
    let device = Device { kind: 0, capacity: None, link: Some(Link { latency: 0, amount: 1, time: 1 }) };
    let mut problem = Problem {
        nodes: vec![node(30), node(0), node(30)],
        values: vec![
            Value { maker: 0, readers: vec![1], amount: amounts.0 },
            Value { maker: 1, readers: vec![2], amount: amounts.1 },
        ],
        devices: vec![device.clone(), device],
        ..Problem::default()
    };
    if let Some(time) = extra {
        problem.nodes.push(node(time));
        problem.values[0].readers.push(3);
    }
    let outcome = partition::solve(&problem, &Limit::default()).unwrap();
    assert_eq!((outcome.status(), outcome.value), (Status::Optimal, brute_force(&problem)));
    outcome.value.unwrap()
}

#[test]
fn a_node_without_cost_joins_the_neighbor_whose_values_are_larger() {
    assert_eq!((chain((5, 1), None), chain((1, 5), None), chain((4, 4), None)), (31, 31, 34));
    // The last node reads the first value too: it crosses or not, wherever the middle node is.
    assert_eq!((chain((5, 3), Some(1)), chain((5, 3), Some(20)), chain((3, 5), Some(20))), (34, 53, 53));
}

#[test]
fn each_fault_is_named() {
    let node = |time| Node { times: vec![Some(time)], held_bytes: 10, ..Node::default() };
    let device = Device { kind: 0, capacity: Some(20), link: Some(Link { latency: 0, amount: 1, time: 1 }) };
    let problem = Problem {
        nodes: vec![node(3), node(4), node(5)],
        values: vec![Value { maker: 0, readers: vec![1, 2], amount: 2 }],
        together: vec![vec![1, 2]],
        devices: vec![device.clone(), device],
        ..Problem::default()
    };
    let given = |sections: &[(u32, &[u32])], value| {
        let sections =
            sections.iter().map(|(device, nodes)| Section { device: *device, nodes: nodes.to_vec() });
        partition::check(&problem, &Solution { sections: sections.collect(), value })
    };
    assert_eq!(given(&[(0, &[0]), (1, &[1, 2])], 11), Ok(()));
    assert_eq!(given(&[(0, &[0]), (1, &[1, 2])], 10), Err(Violation::WrongValue { stated: 10, actual: 11 }));
    assert_eq!(given(&[(0, &[0]), (1, &[1])], 11), Err(Violation::Count { node: 2, count: 0 }));
    assert_eq!(given(&[(0, &[0, 1]), (1, &[1, 2])], 11), Err(Violation::Count { node: 1, count: 2 }));
    assert_eq!(given(&[(0, &[0, 1]), (1, &[2])], 9), Err(Violation::Apart { first: 1, second: 2 }));
    assert_eq!(given(&[(0, &[1, 2]), (1, &[0])], 11), Err(Violation::Backward { maker: 0, reader: 1 }));
    assert_eq!(given(&[(1, &[0]), (0, &[1, 2])], 11), Err(Violation::WrongDevice { section: 1, device: 0 }));
    assert_eq!(given(&[(0, &[0]), (2, &[1, 2])], 11), Err(Violation::WrongDevice { section: 1, device: 2 }));
    assert_eq!(
        given(&[(0, &[0, 1, 2])], 12),
        Err(Violation::AboveCapacity { device: 0, bytes: 30, capacity: 20 })
    );
    assert_eq!(given(&[(0, &[]), (1, &[0, 1, 2])], 12), Err(Violation::Empty { section: 0 }));
}

#[test]
fn wrong_problems_are_refused() {
    let device = Device::default();
    let good = Problem {
        nodes: vec![Node { times: vec![Some(1)], ..Node::default() }],
        devices: vec![device],
        ..Problem::default()
    };
    let refused = |change: &dyn Fn(&mut Problem)| {
        let mut problem = good.clone();
        change(&mut problem);
        partition::solve(&problem, &Limit::default()).unwrap_err()
    };
    assert_eq!(partition::solve(&good, &Limit::default()).unwrap().value, Some(1));
    assert_eq!(refused(&|problem| problem.devices.clear()), ProblemError::NoDevice);
    assert_eq!(
        refused(&|problem| problem.devices[0].kind = 1),
        ProblemError::MissingTime { node: 0, kind: 1 }
    );
    assert_eq!(refused(&|problem| problem.together = vec![vec![0, 1]]), ProblemError::NoSuchNode { node: 1 });
    assert_eq!(
        refused(&|problem| problem.nodes[0].is_backward = true),
        ProblemError::AloneBackward { node: 0 }
    );
    let link = Some(Link { latency: 0, amount: 0, time: 1 });
    assert_eq!(refused(&|problem| problem.devices[0].link = link), ProblemError::ZeroLink { device: 0 });
    assert_eq!(refused(&|problem| problem.nodes[0].held_bytes = u64::MAX / 2), ProblemError::TooLarge);
    for (text, part) in [
        ("{", "EOF"),
        (
            r#"{"maxSizePerFPGA": 1, "maxFPGAs": 1, "nodes": [{"id": 1, "fpgaLatency": -1}], "edges": []}"#,
            "from 0",
        ),
        (
            r#"{"maxSizePerFPGA": 1, "maxFPGAs": 1, "nodes": [{"id": 1, "fpgaLatency": 1}, {"id": 1, "fpgaLatency": 1}], "edges": []}"#,
            "two nodes have the id 1",
        ),
        (
            r#"{"maxSizePerFPGA": 1, "maxFPGAs": 1, "nodes": [{"id": 1, "fpgaLatency": 1}], "edges": [{"sourceId": 1, "destId": 2}]}"#,
            "node 2",
        ),
        (r#"{"maxSizePerFPGA": 1, "maxFPGAs": 4000, "nodes": [], "edges": []}"#, "limit of 1024"),
    ] {
        let error = json::read(text).and_then(|file| file.problem()).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
}
