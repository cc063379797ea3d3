//! Loads for benchmarks. The caller chooses the backend and prints the figures.

use std::time::Duration;

use ironclad_seam::Seam;

use crate::{Engine, EngineStats, StoreError};

/// Measurements of a load of puts.
#[derive(Clone, Copy, Debug)]
pub struct Figures {
    /// Puts acknowledged.
    pub puts: usize,
    /// Time from the first to the last answer.
    pub elapsed: Duration,
    /// Half of the puts were answered within this.
    pub p50: Duration,
    /// 99 of 100 puts were answered within this.
    pub p99: Duration,
    /// The engine's figures afterwards.
    pub engine: EngineStats,
}

impl Figures {
    /// Puts acknowledged per second.
    pub fn per_second(&self) -> f64 {
        self.puts as f64 / self.elapsed.as_secs_f64().max(f64::EPSILON)
    }
}

/// Puts by this many concurrent writers, each waiting for its answer; values of this many bytes under `/bench/` of
/// server `bench`.
///
/// # Errors
/// The first error of a put.
pub async fn puts(
    seam: &Seam,
    engine: &Engine,
    writers: usize,
    each: usize,
    value_bytes: usize,
) -> Result<Figures, StoreError> {
    let start = seam.clock.mono();
    let tasks: Vec<_> = (0..writers)
        .map(|writer| {
            let (store, clock) = (engine.store("bench"), seam.clock.clone());
            let value = bytes::Bytes::from(vec![b'x'; value_bytes]);
            seam.tasks.spawn("bench writer", async move {
                let mut times = Vec::with_capacity(each);
                for i in 0..each {
                    let begin = clock.mono();
                    store.put(&format!("/bench/{writer}/{i}"), value.clone()).await?;
                    times.push(clock.mono() - begin);
                }
                Ok(times)
            })
        })
        .collect();
    let mut times = Vec::with_capacity(writers * each);
    for task in tasks {
        times.extend(task.await.unwrap_or(Err(StoreError::Closed))?);
    }
    let elapsed = seam.clock.mono() - start;
    times.sort();
    let at = |percent: usize| times.get(times.len() * percent / 100).copied().unwrap_or_default();
    Ok(Figures { puts: times.len(), elapsed, p50: at(50), p99: at(99), engine: engine.stats() })
}
