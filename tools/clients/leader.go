package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/record"
)

// leaderElection lets three candidates lead one after another: the first releases the lease, the second ends with it.
func leaderElection(ctx context.Context, w *world) error {
	client, err := kubernetes.NewForConfig(w.protobuf())
	if err != nil {
		return err
	}
	broadcaster := record.NewBroadcaster()
	defer broadcaster.Shutdown()
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events(w.namespace)})

	leading, ended := make(chan string, 3), make(chan string, 3)
	run := func(identity string, releases bool) (context.CancelFunc, error) {
		ctx, cancel := context.WithCancel(ctx)
		elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
			Lock: &resourcelock.LeaseLock{
				LeaseMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "lead"},
				Client:    client.CoordinationV1(),
				LockConfig: resourcelock.ResourceLockConfig{
					Identity:      identity,
					EventRecorder: broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: identity}),
				},
			},
			LeaseDuration:   3 * time.Second,
			RenewDeadline:   2 * time.Second,
			RetryPeriod:     time.Second,
			ReleaseOnCancel: releases,
			Name:            "lead",
			Callbacks: leaderelection.LeaderCallbacks{
				OnStartedLeading: func(context.Context) { leading <- identity },
				OnStoppedLeading: func() {},
			},
		})
		if err != nil {
			cancel()
			return nil, err
		}
		go func() {
			elector.Run(ctx)
			ended <- identity
		}()
		return cancel, nil
	}
	next := func(from <-chan string) (string, error) {
		select {
		case name := <-from:
			return name, nil
		case <-ctx.Done():
			return "", fmt.Errorf("nobody leads, or nobody ends")
		}
	}
	tell := func(who string) error {
		lease, err := client.CoordinationV1().Leases(w.namespace).Get(ctx, "lead", metav1.GetOptions{})
		if err != nil {
			return err
		}
		w.say("%s leads: held by %s for %d s, %d transitions", who, *lease.Spec.HolderIdentity, *lease.Spec.LeaseDurationSeconds, *lease.Spec.LeaseTransitions)
		return nil
	}

	// renewed returns right after a renewal, so that the next action does not race with one.
	renewed := func() error {
		var first *metav1.MicroTime
		return until(ctx, "a renewal", func() (bool, error) {
			lease, err := client.CoordinationV1().Leases(w.namespace).Get(ctx, "lead", metav1.GetOptions{})
			if err != nil {
				return false, err
			}
			if first == nil {
				first = lease.Spec.RenewTime
			}
			return !first.Equal(lease.Spec.RenewTime), nil
		})
	}

	stop := map[string]context.CancelFunc{}
	for _, candidate := range []struct {
		name     string
		releases bool
	}{{"ann", true}, {"bob", false}, {"cid", true}} {
		if stop[candidate.name], err = run(candidate.name, candidate.releases); err != nil {
			return err
		}
		switch candidate.name {
		case "bob":
			// Candidate after ann.
		case "cid":
			if err := tell("bob"); err != nil {
				return err
			}
			stop["bob"]()
			if _, err := next(ended); err != nil {
				return err
			}
		}
		if candidate.name == "bob" {
			if err := renewed(); err != nil {
				return err
			}
			stop["ann"]()
			if _, err := next(ended); err != nil {
				return err
			}
		}
		who, err := next(leading)
		if err != nil {
			return err
		}
		if candidate.name != "bob" {
			if err := tell(who); err != nil {
				return err
			}
		}
	}
	if err := renewed(); err != nil {
		return err
	}
	stop["cid"]()
	if _, err := next(ended); err != nil {
		return err
	}
	lease, err := client.CoordinationV1().Leases(w.namespace).Get(ctx, "lead", metav1.GetOptions{})
	if err != nil {
		return err
	}
	w.say("given back: holder %q", *lease.Spec.HolderIdentity)

	want := []string{"ann became leader", "ann stopped leading", "bob became leader", "bob stopped leading", "cid became leader", "cid stopped leading"}
	return until(ctx, "the events", func() (bool, error) {
		events, err := client.CoreV1().Events(w.namespace).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=lead,reason=LeaderElection"})
		if err != nil {
			return false, err
		}
		var said []string
		for _, event := range events.Items {
			said = append(said, event.Message)
		}
		slices.Sort(said)
		if slices.Equal(said, want) {
			w.say("events: %q", said)
			return true, nil
		}
		return false, nil
	})
}
