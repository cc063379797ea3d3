//! Figures of this process under the names that every exporter gives them.

use std::fs;

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
};

/// Ticks per second in which Linux reports times to programs.
const TICKS: f64 = 100.0;

/// Collector of the figures; where the system has no `/proc` there are none.
#[derive(Debug)]
pub(super) struct Process;

/// Figures of a process.
#[derive(Debug, PartialEq)]
struct Figures {
    cpu_seconds: f64,
    started_seconds: f64,
    virtual_bytes: i64,
    resident_bytes: i64,
}

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), std::fmt::Error> {
        let read = |file: &str| fs::read_to_string(file).unwrap_or_default();
        if let Some(figures) = figures(&read("/proc/self/stat"), &read("/proc/self/status"), &read("/proc/stat")) {
            let help = "User and system CPU time";
            let cpu = encoder.encode_descriptor("process_cpu_seconds", help, None, MetricType::Counter)?;
            ConstCounter::new(figures.cpu_seconds).encode(cpu)?;
            let mut gauge = |name: &str, help: &str, value: f64| {
                let encoder = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
                ConstGauge::new(value).encode(encoder)
            };
            let started = "Start time of the process, in seconds since 1970";
            gauge("process_start_time_seconds", started, figures.started_seconds)?;
            gauge("process_virtual_memory_bytes", "Virtual memory size", figures.virtual_bytes as f64)?;
            gauge("process_resident_memory_bytes", "Resident memory size", figures.resident_bytes as f64)?;
        }
        let open = fs::read_dir("/proc/self/fd").map(|files| files.count()).ok();
        let most = read("/proc/self/limits").lines().find_map(most_files);
        for (name, help, value) in [
            ("process_open_fds", "Number of open file descriptors", open.map(|open| open as f64)),
            ("process_max_fds", "Maximum number of open file descriptors", most),
        ] {
            let Some(value) = value else { continue };
            let encoder = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            ConstGauge::new(value).encode(encoder)?;
        }
        Ok(())
    }
}

/// The soft limit, of a line of `/proc/self/limits`.
fn most_files(line: &str) -> Option<f64> {
    line.strip_prefix("Max open files")?.split_whitespace().next()?.parse().ok()
}

/// Reads `/proc/PID/stat`, `/proc/PID/status` and `/proc/stat`.
fn figures(stat: &str, status: &str, system: &str) -> Option<Figures> {
    // The name in brackets may contain anything.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    // The fields of proc(5) count from 1, and the third comes first here.
    let field = |number: usize| fields.get(number - 3)?.parse::<f64>().ok();
    let booted: f64 = system.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()?;
    let kib = |name: &str| -> Option<i64> {
        let value = status.lines().find_map(|line| line.strip_prefix(name))?;
        Some(value.trim_start_matches(':').split_whitespace().next()?.parse::<i64>().ok()? * 1_024)
    };
    Some(Figures {
        cpu_seconds: (field(14)? + field(15)?) / TICKS,
        started_seconds: booted + field(22)? / TICKS,
        virtual_bytes: kib("VmSize")?,
        resident_bytes: kib("VmRSS")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_as_the_system_writes_them() {
        let stat = "7 (a ) b) S 1 7 7 0 -1 4194560 1 0 0 0 250 150 0 0 20 0 9 0 5000 1 2 3";
        let status = "Name:\ta\nVmSize:\t    2000 kB\nVmRSS:\t    1000 kB\n";
        let want =
            Figures { cpu_seconds: 4.0, started_seconds: 1_050.0, virtual_bytes: 2_048_000, resident_bytes: 1_024_000 };
        assert_eq!(figures(stat, status, "cpu 1\nbtime 1000\n"), Some(want));
        assert_eq!(figures("", status, ""), None);
        assert_eq!(
            most_files("Max open files            1024                 524288               files"),
            Some(1_024.0)
        );
    }
}
