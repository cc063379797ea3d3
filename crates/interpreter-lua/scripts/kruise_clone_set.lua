-- apps.kruise.io CloneSet

counters = {
    "replicas",
    "updatedReplicas",
    "readyReplicas",
    "availableReplicas",
    "updatedReadyReplicas",
    "expectedUpdatedReplicas",
}
texts = { "currentRevision", "updateRevision", "labelSelector" }
