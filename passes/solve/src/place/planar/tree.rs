//! Trees that represent all orders in which given sets of leaves are consecutive.
//!
//! The children of a *free* node come in any order, those of a *strict* node in the given order or its
//! reverse. Requiring a set of leaves to be consecutive shrinks the tree or fails. (PQ-trees, Booth and
//! Lueker, *Testing for the consecutive ones property, interval graphs, and graph planarity using
//! PQ-tree algorithms*, 1976.) Trees here are small and shared between the states of a search, so each
//! operation visits the whole tree and copies only the changed nodes.

use std::rc::Rc;

use crate::basics::no_goods::mix;

/// A tree or subtree.
pub(super) type Tree = Rc<Node>;

#[derive(Debug)]
pub(super) enum Node {
    Leaf(u32),
    Free(Vec<Tree>),
    Strict(Vec<Tree>),
}

/// Share of marked leaves below a node.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shade {
    None,
    All,
    Some,
}

/// Creates a free node of leaves. A single leaf keeps a node of its own, so that the parts it is split
/// into stay together.
pub(super) fn bundle(leaves: impl IntoIterator<Item = u32>) -> Tree {
    Rc::new(Node::Free(leaves.into_iter().map(|leaf| Rc::new(Node::Leaf(leaf))).collect()))
}

fn node(mut children: Vec<Tree>, make: impl FnOnce(Vec<Tree>) -> Node) -> Tree {
    match (children.len(), children.pop()) {
        (1, Some(only)) => only,
        (_, Some(last)) => {
            children.push(last);
            Rc::new(make(children))
        }
        (_, None) => Rc::new(Node::Free(children)),
    }
}

fn shade(tree: &Tree, marked: &[bool]) -> Shade {
    match &**tree {
        Node::Leaf(leaf) if marked[*leaf as usize] => Shade::All,
        Node::Leaf(_) => Shade::None,
        Node::Free(children) | Node::Strict(children) => {
            let mut shades = children.iter().map(|child| shade(child, marked));
            let first = shades.next().unwrap_or(Shade::None);
            if shades.all(|other| other == first) { first } else { Shade::Some }
        }
    }
}

/// Returns the tree of the orders in which the marked leaves are consecutive, or `None` if there are
/// none. O(leaves × depth).
pub(super) fn reduce(tree: &Tree, marked: &[bool]) -> Option<Tree> {
    match &**tree {
        Node::Leaf(_) => Some(tree.clone()),
        Node::Free(children) => reduce_free(tree, children, marked),
        Node::Strict(children) => reduce_strict(tree, children, marked),
    }
}

fn reduce_free(tree: &Tree, children: &[Tree], marked: &[bool]) -> Option<Tree> {
    let (mut none, mut all, mut some) = (Vec::new(), Vec::new(), Vec::new());
    for child in children {
        match shade(child, marked) {
            Shade::None => none.push(child.clone()),
            Shade::All => all.push(child.clone()),
            Shade::Some => some.push(child),
        }
    }
    match (some.as_slice(), all.is_empty()) {
        ([], true) => Some(tree.clone()),
        ([], false) if none.is_empty() => Some(tree.clone()),
        ([], false) => {
            none.push(node(all, Node::Free));
            Some(node(none, Node::Free))
        }
        ([only], true) => {
            let reduced = reduce(only, marked)?;
            let same = |child: &Tree| if Rc::ptr_eq(child, only) { reduced.clone() } else { child.clone() };
            Some(Rc::new(Node::Free(children.iter().map(same).collect())))
        }
        ([left, right @ ..], _) if right.len() < 2 => {
            let mut list = Vec::new();
            line_up(left, marked, &mut list)?;
            if !all.is_empty() {
                list.push(node(all, Node::Free));
            }
            for child in right {
                line_up_reversed(child, marked, &mut list)?;
            }
            none.push(node(list, Node::Strict));
            Some(node(none, Node::Free))
        }
        _ => None,
    }
}

fn reduce_strict(tree: &Tree, children: &[Tree], marked: &[bool]) -> Option<Tree> {
    let shades: Vec<Shade> = children.iter().map(|child| shade(child, marked)).collect();
    let Some(first) = shades.iter().position(|shade| *shade != Shade::None) else {
        return Some(tree.clone());
    };
    let last = shades.iter().rposition(|shade| *shade != Shade::None)?;
    let mut list: Vec<Tree> = children[..first].to_vec();
    if first == last {
        list.push(reduce(&children[first], marked)?);
    } else {
        if shades[first + 1..last].iter().any(|shade| *shade != Shade::All) {
            return None;
        }
        line_up(&children[first], marked, &mut list)?;
        list.extend_from_slice(&children[first + 1..last]);
        line_up_reversed(&children[last], marked, &mut list)?;
    }
    list.extend_from_slice(&children[last + 1..]);
    Some(node(list, Node::Strict))
}

/// Appends the components of a tree as children of a strict node, unmarked leaves first, marked leaves
/// last. Returns `None` if no order allows this.
fn line_up(tree: &Tree, marked: &[bool], list: &mut Vec<Tree>) -> Option<()> {
    match (&**tree, shade(tree, marked)) {
        (Node::Leaf(_), _) | (_, Shade::None | Shade::All) => list.push(tree.clone()),
        (Node::Free(children), Shade::Some) => {
            let of = |wanted: Shade| children.iter().filter(move |child| shade(child, marked) == wanted);
            let (none, all): (Vec<Tree>, Vec<Tree>) =
                (of(Shade::None).cloned().collect(), of(Shade::All).cloned().collect());
            if !none.is_empty() {
                list.push(node(none, Node::Free));
            }
            let mut some = of(Shade::Some);
            if let Some(child) = some.next() {
                line_up(child, marked, list)?;
            }
            if some.next().is_some() {
                return None;
            }
            if !all.is_empty() {
                list.push(node(all, Node::Free));
            }
        }
        (Node::Strict(children), Shade::Some) => {
            let ends = (children.first()?, children.last()?);
            let turned = shade(ends.0, marked) == Shade::All || shade(ends.1, marked) == Shade::None;
            let mut begun = false;
            for place in 0..children.len() {
                let child = &children[if turned { children.len() - 1 - place } else { place }];
                let shade = shade(child, marked);
                if begun && shade != Shade::All {
                    return None;
                }
                begun = shade != Shade::None;
                line_up(child, marked, list)?;
            }
        }
    }
    Some(())
}

fn line_up_reversed(tree: &Tree, marked: &[bool], list: &mut Vec<Tree>) -> Option<()> {
    let mut own = Vec::new();
    line_up(tree, marked, &mut own)?;
    list.extend(own.into_iter().rev());
    Some(())
}

/// Replaces the marked leaves, which must be consecutive, by another tree.
pub(super) fn replace(tree: &Tree, marked: &[bool], by: &Tree) -> Tree {
    match (&**tree, shade(tree, marked)) {
        (_, Shade::None) => tree.clone(),
        (Node::Leaf(_), _) | (_, Shade::All) => by.clone(),
        (Node::Free(children), Shade::Some) => {
            Rc::new(Node::Free(children.iter().map(|child| replace(child, marked, by)).collect()))
        }
        (Node::Strict(children), Shade::Some) => {
            let mut list: Vec<Tree> = children.iter().map(|child| replace(child, marked, by)).collect();
            list.dedup_by(|next, before| Rc::ptr_eq(next, by) && Rc::ptr_eq(before, by));
            node(list, Node::Strict)
        }
    }
}

/// Adds leaf `part` next to `leaf`, in any order if its node is free.
pub(super) fn split(tree: &Tree, leaf: u32, part: u32) -> Tree {
    let is_leaf = |child: &Tree| matches!(&**child, Node::Leaf(other) if *other == leaf);
    match &**tree {
        Node::Leaf(_) if is_leaf(tree) => bundle([leaf, part]),
        Node::Leaf(_) => tree.clone(),
        Node::Free(children) if children.iter().any(is_leaf) => {
            Rc::new(Node::Free(children.iter().cloned().chain([Rc::new(Node::Leaf(part))]).collect()))
        }
        Node::Free(children) => {
            Rc::new(Node::Free(children.iter().map(|child| split(child, leaf, part)).collect()))
        }
        Node::Strict(children) => {
            Rc::new(Node::Strict(children.iter().map(|child| split(child, leaf, part)).collect()))
        }
    }
}

/// Returns the tree without the leaves from `count` on, or `None` if no leaf remains.
pub(super) fn without(tree: &Tree, count: u32) -> Option<Tree> {
    let kept =
        |children: &[Tree]| children.iter().filter_map(|child| without(child, count)).collect::<Vec<_>>();
    match &**tree {
        Node::Leaf(leaf) => (*leaf < count).then(|| tree.clone()),
        Node::Free(children) => {
            Some(kept(children)).filter(|list| !list.is_empty()).map(|list| node(list, Node::Free))
        }
        Node::Strict(children) => {
            Some(kept(children)).filter(|list| !list.is_empty()).map(|list| node(list, Node::Strict))
        }
    }
}

/// Returns a hash that is equal for trees of equal orders, in any written order of their children.
/// Leaves are equal if their codes are.
pub(super) fn hash(tree: &Tree, code: &impl Fn(u32) -> u64) -> u64 {
    let chain = |sum: u64, part: &u64| scramble(sum.rotate_left(7).wrapping_add(*part));
    match &**tree {
        Node::Leaf(leaf) => scramble(code(*leaf)),
        Node::Free(children) => {
            scramble(children.iter().fold(17, |sum: u64, child| sum.wrapping_add(hash(child, code))))
        }
        Node::Strict(children) => {
            let parts: Vec<u64> = children.iter().map(|child| hash(child, code)).collect();
            scramble(parts.iter().fold(5, chain).min(parts.iter().rev().fold(5, chain)).wrapping_add(99))
        }
    }
}

fn scramble(value: u64) -> u64 {
    mix(value as u32, (value >> 32) as u32) as u64
}

/// Logarithms of the factorials, in eighths of a bit.
static FACTORIALS: [u32; 1024] = {
    let mut list = [0; 1024];
    let mut number = 2;
    while number < list.len() {
        list[number] = list[number - 1] + (number as u128).pow(8).ilog2();
        number += 1;
    }
    list
};

/// Returns the logarithm of the number of orders, in eighths of a bit.
pub(super) fn freedom(tree: &Tree) -> u64 {
    match &**tree {
        Node::Leaf(_) => 0,
        Node::Free(children) => {
            let own = FACTORIALS.get(children.len()).or(FACTORIALS.last()).copied().unwrap_or(0);
            u64::from(own) + children.iter().map(freedom).sum::<u64>()
        }
        Node::Strict(children) => 8 + children.iter().map(freedom).sum::<u64>(),
    }
}

/// Appends the leaves in an order of the tree that agrees with the given positions. Leaves with one
/// position are consecutive in some order.
pub(super) fn order_by(tree: &Tree, position: &impl Fn(u32) -> usize, order: &mut Vec<u32>) {
    match &**tree {
        Node::Leaf(leaf) => order.push(*leaf),
        Node::Free(children) => {
            let mut sorted: Vec<&Tree> = children.iter().collect();
            sorted.sort_by_cached_key(|child| lowest(child, position));
            sorted.into_iter().for_each(|child| order_by(child, position, order));
        }
        Node::Strict(children) => {
            let ends = children.first().zip(children.last());
            if ends.is_some_and(|(first, last)| lowest(first, position) > lowest(last, position)) {
                children.iter().rev().for_each(|child| order_by(child, position, order));
            } else {
                children.iter().for_each(|child| order_by(child, position, order));
            }
        }
    }
}

fn lowest(tree: &Tree, position: &impl Fn(u32) -> usize) -> usize {
    match &**tree {
        Node::Leaf(leaf) => position(*leaf),
        Node::Free(children) | Node::Strict(children) => {
            children.iter().map(|child| lowest(child, position)).min().unwrap_or(0)
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use std::collections::BTreeSet;

    use super::*;
    use crate::basics::random::Xorshift;

    /// Returns all orders of a tree.
    fn orders(tree: &Tree) -> BTreeSet<Vec<u32>> {
        let join = |children: &[&Tree]| {
            children.iter().fold(BTreeSet::from([Vec::new()]), |lists, child| {
                let next = orders(child);
                lists
                    .iter()
                    .flat_map(|list| next.iter().map(move |more| [list.as_slice(), more].concat()))
                    .collect()
            })
        };
        match &**tree {
            Node::Leaf(leaf) => BTreeSet::from([vec![*leaf]]),
            Node::Strict(children) => {
                let forth: Vec<&Tree> = children.iter().collect();
                let back: Vec<&Tree> = children.iter().rev().collect();
                join(&forth).union(&join(&back)).cloned().collect()
            }
            Node::Free(children) => {
                let mut all = BTreeSet::new();
                permute(&mut children.iter().collect(), 0, &mut |order| all.extend(join(order)));
                all
            }
        }
    }

    fn permute<'a>(list: &mut Vec<&'a Tree>, from: usize, visit: &mut impl FnMut(&[&'a Tree])) {
        if from == list.len() {
            visit(list);
        }
        for other in from..list.len() {
            list.swap(from, other);
            permute(list, from + 1, visit);
            list.swap(from, other);
        }
    }

    fn consecutive(order: &[u32], marked: &[bool]) -> bool {
        let places: Vec<usize> = (0..order.len()).filter(|place| marked[order[*place] as usize]).collect();
        places.windows(2).all(|pair| pair[1] == pair[0] + 1)
    }

    #[test]
    fn reduced_trees_have_exactly_the_orders_that_are_left() {
        let mut random = Xorshift::new();
        let mut failures = 0;
        for _ in 0..150 {
            let mut tree = bundle(0..6);
            for _ in 0..5 {
                let marked: Vec<bool> = (0..6).map(|_| random.below(2) == 0).collect();
                let left: BTreeSet<Vec<u32>> =
                    orders(&tree).into_iter().filter(|order| consecutive(order, &marked)).collect();
                match reduce(&tree, &marked) {
                    Some(reduced) => {
                        assert_eq!(orders(&reduced), left);
                        tree = reduced;
                    }
                    None => {
                        assert!(left.is_empty(), "{tree:?} {marked:?}");
                        failures += 1;
                    }
                }
            }
        }
        assert!(failures > 50, "{failures}");
    }

    #[test]
    fn orders_agree_with_positions_and_alike_trees_hash_alike() {
        let marks = |set: &[u32]| (0..6).map(|leaf| set.contains(&leaf)).collect::<Vec<bool>>();
        let reduced =
            |sets: &[&[u32]]| sets.iter().fold(bundle(0..6), |tree, set| reduce(&tree, &marks(set)).unwrap());
        let (tree, other) = (reduced(&[&[0, 1], &[1, 2], &[3, 4]]), reduced(&[&[3, 4], &[1, 2], &[0, 1]]));
        assert_eq!(hash(&tree, &u64::from), hash(&other, &u64::from));
        assert!(hash(&tree, &u64::from) != hash(&reduced(&[&[0, 2], &[1, 2], &[3, 4]]), &u64::from));
        let mut order = Vec::new();
        order_by(&tree, &|leaf| [9, 8, 7, 2, 3, 5][leaf as usize], &mut order);
        assert_eq!(order, [3, 4, 5, 2, 1, 0]);
        // Consecutive leaves can be replaced, split and restored.
        let with = replace(&tree, &marks(&[0, 1, 2]), &bundle([2]));
        assert!(orders(&split(&with, 2, 1)).iter().all(|order| consecutive(order, &marks(&[1, 2]))));
        assert_eq!(orders(&without(&tree, 4).unwrap()).len(), 4);
        assert!(freedom(&tree) > freedom(&reduced(&[&[0, 1], &[1, 2], &[3, 4], &[4, 5]])));
    }
}
