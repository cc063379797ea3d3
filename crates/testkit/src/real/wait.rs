//! Waiting for a state of real processes by polling.

use std::time::Duration;

use anyhow::bail;
use tokio::time;

const POLL: Duration = Duration::from_millis(50);

/// Deadline of a single check, which is then repeated.
const LOOK: Duration = Duration::from_secs(5);

pub async fn until<T>(
    what: &str,
    deadline: Duration,
    mut look: impl AsyncFnMut() -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    poll(what, deadline, async || look().await.map_err(Pending::Yet)).await
}

pub(super) enum Pending {
    /// It may still be reached.
    Yet(anyhow::Error),
    /// It cannot be reached any more.
    Never(anyhow::Error),
}

/// Like [`until`], for states that may become impossible.
pub(super) async fn poll<T>(
    what: &str,
    deadline: Duration,
    mut look: impl AsyncFnMut() -> Result<T, Pending>,
) -> anyhow::Result<T> {
    let mut last = None;
    let seen = time::timeout(deadline, async {
        loop {
            match time::timeout(LOOK, look()).await {
                Ok(Ok(seen)) => return Ok(seen),
                Ok(Err(Pending::Never(error))) => return Err(error),
                Ok(Err(Pending::Yet(error))) => last = Some(error),
                Err(_) => last = Some(anyhow::anyhow!("no answer for {} s", LOOK.as_secs())),
            }
            time::sleep(POLL).await;
        }
    })
    .await;
    match (seen, last) {
        (Ok(seen), _) => seen,
        (Err(_), Some(last)) => Err(last.context(format!("{what}: not so after {} s", deadline.as_secs()))),
        (Err(_), None) => bail!("{what}: no check completed for {} s", deadline.as_secs()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn until_polls_until_the_state_is_reached() {
        let mut looks = 0;
        let seen = until("the third look", Duration::from_secs(1), async || {
            looks += 1;
            if looks == 3 { Ok("seen") } else { bail!("look {looks}") }
        })
        .await;
        assert_eq!(seen.unwrap(), "seen");
    }

    #[tokio::test(start_paused = true)]
    async fn timeout_names_the_last_reason() {
        let error =
            until::<()>("a miracle", Duration::from_secs(2), async || bail!("nothing happened")).await.unwrap_err();
        assert_eq!(format!("{error:#}"), "a miracle: not so after 2 s: nothing happened");
    }

    #[tokio::test(start_paused = true)]
    async fn poll_without_an_answer_is_repeated() {
        let mut looks = 0;
        let seen = until("the second look", Duration::from_secs(60), async || {
            looks += 1;
            if looks == 1 {
                std::future::pending::<()>().await;
            }
            Ok(looks)
        })
        .await;
        assert_eq!(seen.unwrap(), 2);
    }
}
