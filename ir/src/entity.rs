//! Entity ids and the maps keyed by them: an id is a `u32` newtype that prints with a prefix for its
//! kind.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Index, IndexMut};

/// Id of an entity (value, node, graph, constant, space) that a [`PrimaryMap`] owns.
pub trait EntityId: Copy + Eq + Ord + fmt::Display {
    /// Creates the id of the entity at `index`; indices beyond `u32` are clamped (no map grows that
    /// far).
    fn new(index: usize) -> Self;
    /// Position of the entity in its map.
    fn index(self) -> usize;
}

/// Declares an entity id type; `$prefix` comes first in its printed form.
macro_rules! entity_id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(u32);

        impl EntityId for $name {
            fn new(index: usize) -> Self {
                Self(u32::try_from(index).unwrap_or(u32::MAX))
            }
            fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{self}")
            }
        }
    };
}

entity_id!(
    /// An SSA value: a graph input, a constant, or the result of a node.
    Value, "%v"
);
entity_id!(
    /// A node: one application of an operator.
    Node, "n"
);
entity_id!(
    /// A graph: the main graph or a body of If, Loop or Scan.
    GraphId, "graph"
);
entity_id!(
    /// A constant: its type and a reference to its bytes.
    ConstId, "const"
);
entity_id!(
    /// A memory space of the target.
    Space, "@space"
);

/// Owns the entities of one kind, in order of creation.
#[derive(Clone, Debug)]
pub struct PrimaryMap<K, V> {
    items: Vec<V>,
    key: PhantomData<K>,
}

impl<K: EntityId, V> PrimaryMap<K, V> {
    /// Creates an empty map.
    pub fn new() -> Self {
        Self { items: Vec::new(), key: PhantomData }
    }
    /// Adds an entity and returns its id.
    pub fn push(&mut self, item: V) -> K {
        self.items.push(item);
        K::new(self.items.len() - 1)
    }
    /// Number of entities.
    pub fn len(&self) -> usize {
        self.items.len()
    }
    /// Whether the map has no entities.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
    /// Whether `key` is the id of an entity in this map.
    pub fn contains(&self, key: K) -> bool {
        key.index() < self.items.len()
    }
    /// Iterates over all ids, in order of creation.
    pub fn keys(&self) -> impl DoubleEndedIterator<Item = K> + use<K, V> {
        (0..self.items.len()).map(K::new)
    }
    /// Iterates over all ids with their entities, in order of creation.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (K, &V)> {
        self.items.iter().enumerate().map(|(index, item)| (K::new(index), item))
    }
    /// Returns the entity with id `key`; `None` if the map does not have it.
    pub fn get(&self, key: K) -> Option<&V> {
        self.items.get(key.index())
    }
}

impl<K: EntityId, V> Default for PrimaryMap<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: EntityId, V> Index<K> for PrimaryMap<K, V> {
    type Output = V;
    fn index(&self, key: K) -> &V {
        &self.items[key.index()]
    }
}

impl<K: EntityId, V> IndexMut<K> for PrimaryMap<K, V> {
    fn index_mut(&mut self, key: K) -> &mut V {
        &mut self.items[key.index()]
    }
}

/// Attaches an item to each id of a [`PrimaryMap`]; ids without an item read as the default.
#[derive(Clone, Debug)]
pub struct SecondaryMap<K, V> {
    items: Vec<V>,
    default: V,
    key: PhantomData<K>,
}

impl<K: EntityId, V: Clone> SecondaryMap<K, V> {
    /// Creates a map in which every id reads as `default`.
    pub fn new(default: V) -> Self {
        Self { items: Vec::new(), default, key: PhantomData }
    }
    /// Sets the item of `key`.
    pub fn set(&mut self, key: K, item: V) {
        self[key] = item;
    }
}

impl<K: EntityId, V: Clone + Default> Default for SecondaryMap<K, V> {
    fn default() -> Self {
        Self::new(V::default())
    }
}

impl<K: EntityId, V> Index<K> for SecondaryMap<K, V> {
    type Output = V;
    fn index(&self, key: K) -> &V {
        self.items.get(key.index()).unwrap_or(&self.default)
    }
}

impl<K: EntityId, V: Clone> IndexMut<K> for SecondaryMap<K, V> {
    fn index_mut(&mut self, key: K) -> &mut V {
        if key.index() >= self.items.len() {
            self.items.resize(key.index() + 1, self.default.clone());
        }
        &mut self.items[key.index()]
    }
}
