//! Estimates of clusters that did not change, by request (specification/scheduling.md 10.2).
//!
//! Most decisions ask the same few requests about the same fleet. A change of the account of a
//! cluster makes its answers void; those of the others stay. The rows of answers are bounded, so that many different
//! requests cost time, never memory.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use ironclad_fleet::ClusterName;

use super::{Asker, Capacity};
use crate::estimator::Question;

/// Largest number of requests whose answers are kept; the one that was not asked for the longest time is replaced.
const ROWS_MAX: usize = 64;
/// No answer is known.
const UNKNOWN: i32 = -1;

/// Known answers. They follow from the capacity, so a copy of it begins without any.
#[derive(Debug, Default)]
pub(super) struct Answers(Mutex<Table>);

impl Clone for Answers {
    fn clone(&self) -> Self {
        Self::default()
    }
}

#[derive(Debug, Default)]
struct Table {
    rows: Vec<Row>,
    /// Number of decisions that asked, as the age of rows.
    asked: u64,
    /// Cluster of each column.
    names: Vec<Option<ClusterName>>,
    columns: BTreeMap<ClusterName, usize>,
}

/// Answers to one request, by the number of the cluster.
#[derive(Debug)]
struct Row {
    question: Question,
    asked: u64,
    fits: Vec<i32>,
}

impl Answers {
    fn lock(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets the answers about a cluster that changes.
    pub(super) fn forget(&mut self, cluster: &ClusterName) {
        let table = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(column) = table.columns.get(cluster).copied() {
            table.clear(column);
        }
    }
}

impl Table {
    fn row(&mut self, question: &Question) -> usize {
        self.asked += 1;
        let known = self.rows.iter().position(|row| row.question == *question);
        let row = known.unwrap_or_else(|| {
            let new = Row { question: question.clone(), asked: 0, fits: vec![UNKNOWN; self.names.len()] };
            let oldest = (0..self.rows.len()).min_by_key(|row| self.rows[*row].asked);
            match oldest.filter(|_| self.rows.len() >= ROWS_MAX) {
                Some(oldest) => {
                    self.rows[oldest] = new;
                    oldest
                }
                None => {
                    self.rows.push(new);
                    self.rows.len() - 1
                }
            }
        });
        self.rows[row].asked = self.asked;
        row
    }

    fn is_of(&self, column: usize, cluster: &ClusterName) -> bool {
        let name = self.names.get(column).and_then(Option::as_ref);
        name.is_some_and(|name| Arc::ptr_eq(&name.0, &cluster.0) || name == cluster)
    }

    fn known(&self, row: usize, column: usize, cluster: &ClusterName) -> Option<i64> {
        let answer = *self.rows.get(row)?.fits.get(column)?;
        (answer != UNKNOWN && self.is_of(column, cluster)).then_some(i64::from(answer))
    }

    fn learn(&mut self, row: usize, column: usize, cluster: &ClusterName, fits: i64) {
        if !self.is_of(column, cluster) {
            self.assign(column, cluster);
        }
        let Some(row) = self.rows.get_mut(row) else { return };
        if row.fits.len() <= column {
            row.fits.resize(column + 1, UNKNOWN);
        }
        row.fits[column] = i32::try_from(fits).unwrap_or(UNKNOWN);
    }

    /// Gives a column to another cluster: numbers are used again.
    fn assign(&mut self, column: usize, cluster: &ClusterName) {
        if self.names.len() <= column {
            self.names.resize(column + 1, None);
        }
        if let Some(before) = self.names[column].replace(cluster.clone()) {
            self.columns.remove(&before);
        }
        if let Some(other) = self.columns.insert(cluster.clone(), column) {
            self.names[other] = None;
            self.clear(other);
        }
        self.clear(column);
    }

    fn clear(&mut self, column: usize) {
        for row in &mut self.rows {
            if let Some(answer) = row.fits.get_mut(column) {
                *answer = UNKNOWN;
            }
        }
    }
}

/// Estimates for one request, computed once for each version of a cluster.
pub(crate) struct Remembered<'a> {
    capacity: &'a Capacity,
    table: MutexGuard<'a, Table>,
    row: usize,
    question: &'a Question,
    asker: Asker<'a>,
}

impl Capacity {
    /// Estimates for this request, as [`Capacity::fits`] gives them.
    pub(crate) fn remembered<'a>(&'a self, question: &'a Question, asker: Asker<'a>) -> Remembered<'a> {
        let mut table = self.answers.lock();
        let row = table.row(question);
        Remembered { capacity: self, table, row, question, asker }
    }
}

impl Remembered<'_> {
    /// Answer of [`Capacity::fits`] about the cluster with this number.
    pub(crate) fn fits(&mut self, number: usize, cluster: &ClusterName) -> Option<i64> {
        if let Some(known) = self.table.known(self.row, number, cluster) {
            return Some(known);
        }
        let fits = self.capacity.fits(cluster, self.question, &self.asker)?;
        // What is held for preemptors counts for some workloads only.
        if self.capacity.slots.get(cluster).is_some_and(|slot| slot.nominated.is_empty()) {
            self.table.learn(self.row, number, cluster, fits);
        }
        Some(fits)
    }
}
