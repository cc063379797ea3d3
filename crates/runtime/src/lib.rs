//! Informers on ordered maps, work queues, the reconcile loop and one writer of status, over any kube client.
