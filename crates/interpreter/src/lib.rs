//! What a kind's replicas, health, status and dependencies are; native kinds first.
