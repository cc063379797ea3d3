//! Sources whose script calls are counted.

use std::{fmt, sync::Arc, time::Duration};

use ironclad_interpreter::{Answer, InterpretError, Operation, Question, Source};
use ironclad_interpreter_lua::{Declarative, Shipped};

use super::metrics::InterpreterMetrics;
use crate::metrics::result;

/// Label of customizations' scripts.
pub(super) const CUSTOMIZATION: &str = "customization";
/// Label of shipped scripts.
const SHIPPED: &str = "shipped";

/// A source of answers by scripts.
#[derive(Debug)]
pub(super) enum Engines {
    Customizations(Arc<Declarative>),
    Shipped(Arc<Shipped>),
}

/// The same, counted.
pub(super) struct Counted {
    pub(super) engines: Engines,
    /// Monotonic time.
    pub(super) elapsed: Arc<dyn Fn() -> Duration + Send + Sync>,
    pub(super) metrics: InterpreterMetrics,
}

impl fmt::Debug for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.engines.fmt(f)
    }
}

impl Engines {
    fn source(&self) -> &dyn Source {
        match self {
            Self::Customizations(source) => &**source,
            Self::Shipped(source) => &**source,
        }
    }
}

impl Source for Counted {
    fn implements(&self, api_version: &str, kind: &str, operation: Operation) -> bool {
        self.engines.source().implements(api_version, kind, operation)
    }

    fn answer(&self, question: &Question<'_>) -> Result<Answer, InterpretError> {
        let began = (self.elapsed)();
        let answer = self.engines.source().answer(question);
        let took = (self.elapsed)().saturating_sub(began);
        let name = match &self.engines {
            Engines::Customizations(_) => CUSTOMIZATION,
            Engines::Shipped(shipped) => {
                // They are compiled at their first call.
                self.metrics.kept(SHIPPED, shipped.engines());
                SHIPPED
            }
        };
        self.metrics.called(name, question.operation().name(), result(&answer), took);
        answer
    }
}

#[cfg(test)]
mod tests {
    use ironclad_interpreter::Interpreter;
    use ironclad_interpreter_lua::Host;
    use serde_json::json;

    use super::*;
    use prometheus_client::registry::Registry;

    #[test]
    fn calls_are_counted_by_their_ends() {
        let mut registry = Registry::default();
        let metrics = InterpreterMetrics::register(&mut registry);
        let counted = Counted {
            engines: Engines::Shipped(Arc::new(Shipped::new(Host::at(0)))),
            elapsed: Arc::new(|| Duration::ZERO),
            metrics,
        };
        let interpreter = Interpreter::new(vec![Arc::new(counted)]);
        let set = |replicas: serde_json::Value| {
            json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "metadata": {"name": "c", "namespace": "n"},
                "spec": {"replicas": replicas, "template": {"spec": {"containers": []}}}})
        };
        assert!(interpreter.health(&set(json!(2))).is_ok());
        assert!(interpreter.health(&set(json!("many"))).is_err());
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        let of = "source=\"shipped\",operation=\"InterpretHealth\"";
        for line in [
            "ironclad_interpreter_pool_engines{source=\"shipped\"} 1".to_owned(),
            format!("ironclad_interpreter_pool_calls_total{{{of},result=\"success\"}} 1"),
            format!("ironclad_interpreter_pool_calls_total{{{of},result=\"error\"}} 1"),
            "ironclad_interpreter_pool_call_duration_seconds_count{source=\"shipped\"} 2".to_owned(),
        ] {
            assert!(text.contains(&line), "{line} is not in\n{text}");
        }
    }
}
