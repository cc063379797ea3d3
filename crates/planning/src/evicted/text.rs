//! Answers as people read them.

use jiff::Timestamp;

use super::Answer;

/// Remedy that lets evictions from a cluster go on after `--max-evictions-per-episode`.
#[must_use]
pub fn next_episode(cluster: &str) -> String {
    format!(
        "remove the evicting taints of cluster {cluster} and add them again: a new episode begins; or restart the leader with another limit"
    )
}

/// The time from one moment to a later one, in the largest two units.
#[must_use]
pub fn span(from: Timestamp, to: Timestamp) -> String {
    let seconds = to.duration_since(from).as_secs().max(0);
    match (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60) {
        (0, 0, 0, s) => format!("{s}s"),
        (0, 0, m, s) => format!("{m}m{s}s"),
        (0, h, m, _) => format!("{h}h{m}m"),
        (d, h, _, _) => format!("{d}d{h}h"),
    }
}

impl Answer {
    /// Order of answers: what leaves first.
    #[must_use]
    pub fn rank(&self) -> u8 {
        match self.state.as_str() {
            "Evicting" => 0,
            "Queued" => 1,
            "Delayed" | "Retrying" | "Leaves" => 2,
            "Held" => 3,
            "Parked" => 4,
            "Left" => 5,
            _ => 6,
        }
    }

    /// The answer in lines.
    #[must_use]
    pub fn text(&self, now: Timestamp) -> String {
        let verb = match self.state.as_str() {
            "Left" => "has left",
            "Stays" => "stays on",
            _ => "leaves",
        };
        let mut text = format!("{} ({}) {verb} {}\n", self.binding, self.resource, self.cluster);
        let mut line = |name: &str, value: String| text.push_str(&format!("  {name:<9}{value}\n"));
        line("because", self.because.clone());
        if let Some(frozen) = &self.frozen {
            line("judged", frozen.clone());
        }
        if !["Left", "Stays"].contains(&self.state.as_str()) {
            let place = self.place.map_or(String::new(), |place| format!(", position {place}"));
            let since = self.since.map_or(String::new(), |since| format!(", for {}", span(since, now)));
            let by = if self.rebuilt { " (by the objects; the leader was not asked)" } else { "" };
            line("state", format!("{}{place}{since}{by}", self.state));
            if let Some(because) = &self.waits_because {
                line("waits", because.clone());
            }
            if self.state == "Held" && self.waits_because.as_ref().is_some_and(|why| why.contains("--max-evictions")) {
                line("try", next_episode(&self.cluster.0));
            }
        }
        if let Some(due) = self.due {
            let in_words = if due <= now { "now".to_owned() } else { format!("in {}", span(now, due)) };
            line("due", format!("{due} ({in_words})"));
        }
        match self.expected {
            Some(at) => line("expected", format!("{at} (in {})", span(now, at))),
            None if self.due.is_some() => line("expected", "not before something changes".to_owned()),
            None => {}
        }
        if let Some(mode) = &self.purge_mode {
            line("copy", mode.clone());
        }
        if let Some(target) = &self.target {
            line("target", target.clone());
        }
        for way in &self.cancels {
            line("cancel", way.clone());
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_between_two_times() {
        for (seconds, want) in [(0, "0s"), (59, "59s"), (61, "1m1s"), (3_661, "1h1m"), (90_000, "1d1h"), (-5, "0s")] {
            assert_eq!(span(Timestamp::UNIX_EPOCH, Timestamp::from_second(seconds).unwrap()), want);
        }
    }
}
