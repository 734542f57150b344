//! Matching: which results of a step can each take over an operand of their own.

use std::collections::BTreeMap;

/// Returns the takers that find a partner, by augmenting paths in breadth-first order.
///
/// Each taker in turn keeps its partner or hands it to another taker and gets a new one, but never loses
/// it. So the takers found are the best set if the first takers are worth the most (greedy over the
/// transversal matroid).
pub(crate) fn matched<I: Iterator<Item = u32>>(takers: &[u32], candidates: impl Fn(u32) -> I) -> Vec<u32> {
    let mut owner: BTreeMap<u32, u32> = BTreeMap::new();
    let mut found = Vec::new();
    for &taker in takers {
        // `reached_from[taken] = taker`: the taker from which the search reached a buffer.
        let mut reached_from: BTreeMap<u32, u32> = BTreeMap::new();
        // Search breadth-first for a buffer without an owner.
        let mut queue = vec![taker];
        let mut free = None;
        let mut next = 0;
        while next < queue.len() && free.is_none() {
            let current = queue[next];
            next += 1;
            for taken in candidates(current) {
                if reached_from.contains_key(&taken) {
                    continue;
                }
                reached_from.insert(taken, current);
                match owner.get(&taken) {
                    Some(other) => queue.push(*other),
                    None => {
                        free = Some(taken);
                        break;
                    }
                }
            }
        }
        // Walk back along the path: each taker on it gets the buffer that it reached.
        let Some(mut taken) = free else { continue };
        found.push(taker);
        while let Some(&new_owner) = reached_from.get(&taken) {
            let previous =
                owner.iter().find(|(_, owned_by)| **owned_by == new_owner).map(|(taken, _)| *taken);
            owner.insert(taken, new_owner);
            match previous {
                Some(given_up) if new_owner != taker => {
                    owner.remove(&given_up);
                    taken = given_up;
                }
                _ => break,
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::matched;

    #[test]
    fn earlier_takers_stay_matched_while_their_partners_change() {
        let find = |partners: &[&[u32]]| {
            let takers: Vec<u32> = (0..partners.len() as u32).collect();
            matched(&takers, |taker| partners[taker as usize].iter().copied())
        };
        assert_eq!(find(&[&[7, 8], &[7], &[8]]), [0, 1]);
        assert_eq!(find(&[&[7, 8], &[7, 9], &[7], &[8]]), [0, 1, 2, 3][..3]);
        assert_eq!(find(&[&[], &[5], &[5], &[5, 6]]), [1, 3]);
    }
}
