-- apps.kruise.io StatefulSet (v1beta1)

counters = {
    "replicas",
    "updatedReplicas",
    "readyReplicas",
    "availableReplicas",
    "currentReplicas",
    "updatedReadyReplicas",
}
texts = { "currentRevision", "updateRevision", "labelSelector" }
