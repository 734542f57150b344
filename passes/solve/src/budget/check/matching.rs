//! Which results of a run take over which operands, by augmenting paths.

use std::collections::BTreeMap;

/// Which takers get one of their partners, no partner for two, so that their sizes add up to the most: in falling size, each looks for a
/// way to move others on (augmenting paths; the sets that can be matched form a matroid, so greedy by size is best).
pub fn best_matching(wishes: &[(u64, Vec<usize>)]) -> Vec<usize> {
    let mut takers: Vec<usize> = (0..wishes.len()).filter(|taker| !wishes[*taker].1.is_empty()).collect();
    takers.sort_by_key(|taker| std::cmp::Reverse(wishes[*taker].0));
    let mut holder: BTreeMap<usize, usize> = BTreeMap::new();
    for &taker in &takers {
        // Who asked for each partner that was reached.
        let mut asked_by: BTreeMap<usize, usize> = BTreeMap::new();
        let mut asking = vec![taker];
        let mut open = None;
        while let Some(who) = asking.pop().filter(|_| open.is_none()) {
            for &partner in &wishes[who].1 {
                if asked_by.contains_key(&partner) {
                    continue;
                }
                asked_by.insert(partner, who);
                match holder.get(&partner) {
                    Some(other) => asking.push(*other),
                    None => open = Some(partner),
                }
            }
        }
        while let Some(partner) = open {
            let who = asked_by[&partner];
            open = holder.iter().find(|(_, owner)| **owner == who).map(|(held, _)| *held);
            if let Some(held) = open {
                holder.remove(&held);
            }
            holder.insert(partner, who);
        }
    }
    holder.into_values().collect()
}
