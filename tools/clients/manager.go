package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

const finalizer = "example.com/cleaned"

// controllerManager runs a manager of controller-runtime whose reconciler maintains a ConfigMap for each Widget and counts, in
// another one, finalized Widgets.
func controllerManager(ctx context.Context, w *world) error {
	group := w.namespace + ".example.com"
	if _, err := define(ctx, w, "widget", group, scaled(widgetFields)); err != nil {
		return err
	}
	kinds := runtime.NewScheme()
	if err := scheme.AddToScheme(kinds); err != nil {
		return err
	}
	addWidgets(kinds, group)
	manager, err := ctrl.NewManager(w.config, ctrl.Options{
		Scheme:                        kinds,
		Metrics:                       server.Options{BindAddress: "0"},
		Cache:                         cache.Options{DefaultNamespaces: map[string]cache.Config{w.namespace: {}}},
		LeaderElection:                true,
		LeaderElectionID:              "widgets",
		LeaderElectionNamespace:       w.namespace,
		LeaderElectionReleaseOnCancel: true,
	})
	if err != nil {
		return err
	}
	err = manager.GetFieldIndexer().IndexField(ctx, &Widget{}, "spec.text", func(object client.Object) []string {
		return []string{object.(*Widget).Spec.Text}
	})
	if err != nil {
		return err
	}
	reconciler := &widgets{Client: manager.GetClient(), scheme: kinds}
	if err := ctrl.NewControllerManagedBy(manager).For(&Widget{}).Owns(&corev1.ConfigMap{}).Complete(reconciler); err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- manager.Start(running) }()
	select {
	case <-manager.Elected():
		w.say("elected")
	case err := <-ended:
		return fmt.Errorf("the manager ended: %w", err)
	}

	// A second client, without a cache.
	user, err := client.New(w.config, client.Options{Scheme: kinds})
	if err != nil {
		return err
	}
	widget := &Widget{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "one"}, Spec: WidgetSpec{Text: "hello"}}
	key := client.ObjectKeyFromObject(widget)
	if err := user.Create(ctx, widget); err != nil {
		return err
	}
	copied := func(text string) func() (bool, error) {
		return func() (bool, error) {
			made, now := &corev1.ConfigMap{}, &Widget{}
			if err := user.Get(ctx, key, now); err != nil {
				return false, err
			}
			err := user.Get(ctx, key, made)
			if err != nil || made.Data["text"] != text || now.Status.ObservedGeneration != now.Generation {
				return false, ignoreNotFound(err)
			}
			owner := made.OwnerReferences[0]
			w.say("copied %q: owner %s %s, controller %t; status %s of generation %d; finalizers %v",
				text, owner.Kind, owner.Name, *owner.Controller, now.Status.Phase, now.Status.ObservedGeneration, now.Finalizers)
			return true, nil
		}
	}
	if err := until(ctx, "the text is copied", copied("hello")); err != nil {
		return err
	}
	tooLong := client.MergeFrom(widget.DeepCopyObject().(*Widget))
	widget.Spec.Text = "a text that is longer than the schema lets it be"
	w.say("too long: %t", apierrors.IsInvalid(user.Patch(ctx, widget, tooLong)))

	if err := user.Get(ctx, key, widget); err != nil {
		return err
	}
	change := client.MergeFromWithOptions(widget.DeepCopyObject().(*Widget), client.MergeFromWithOptimisticLock{})
	widget.Spec.Text = "changed"
	if err := user.Patch(ctx, widget, change); err != nil {
		return err
	}
	if err := until(ctx, "the change is copied", copied("changed")); err != nil {
		return err
	}
	if err := user.Delete(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "one"}}); err != nil {
		return err
	}
	if err := until(ctx, "the copy is made again", copied("changed")); err != nil {
		return err
	}

	// The cache of the manager answers by the index; fields are indexed there, not by the server.
	found := &WidgetList{}
	if err := manager.GetClient().List(ctx, found, client.InNamespace(w.namespace), client.MatchingFields{"spec.text": "changed"}); err != nil {
		return err
	}
	w.say("by index: %d", len(found.Items))

	if err := user.Delete(ctx, widget, client.PropagationPolicy(metav1.DeletePropagationForeground)); err != nil {
		return err
	}
	err = until(ctx, "it is cleaned up and gone", func() (bool, error) {
		err := user.Get(ctx, key, &Widget{})
		return apierrors.IsNotFound(err), ignoreNotFound(err)
	})
	if err != nil {
		return err
	}
	gone := user.Get(ctx, key, &corev1.ConfigMap{})
	cleaned := &corev1.ConfigMap{}
	if err := user.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: "cleaned"}, cleaned); err != nil {
		return err
	}
	w.say("gone, and with it the copy: %t; cleaned: %v", apierrors.IsNotFound(gone), cleaned.Data)

	stop()
	select {
	case err := <-ended:
		w.say("the manager ends: %v", err)
	case <-time.After(20 * time.Second):
		return fmt.Errorf("the manager does not end")
	}
	return nil
}

type widgets struct {
	client.Client
	scheme *runtime.Scheme
}

func (r *widgets) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	widget := &Widget{}
	if err := r.Get(ctx, request.NamespacedName, widget); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !widget.DeletionTimestamp.IsZero() {
		if !controllerutil.ContainsFinalizer(widget, finalizer) {
			return ctrl.Result{}, nil
		}
		cleaned := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: widget.Namespace, Name: "cleaned"}}
		_, err := controllerutil.CreateOrUpdate(ctx, r.Client, cleaned, func() error {
			if cleaned.Data == nil {
				cleaned.Data = map[string]string{}
			}
			cleaned.Data[widget.Name] = "yes"
			return nil
		})
		if err != nil {
			return ctrl.Result{}, err
		}
		controllerutil.RemoveFinalizer(widget, finalizer)
		return ctrl.Result{}, r.Update(ctx, widget)
	}
	if controllerutil.AddFinalizer(widget, finalizer) {
		return ctrl.Result{}, r.Update(ctx, widget)
	}
	copied := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: widget.Namespace, Name: widget.Name}}
	_, err := controllerutil.CreateOrPatch(ctx, r.Client, copied, func() error {
		copied.Data = map[string]string{"text": widget.Spec.Text}
		return controllerutil.SetControllerReference(widget, copied, r.scheme)
	})
	if err != nil {
		return ctrl.Result{}, err
	}
	before := client.MergeFrom(widget.DeepCopyObject().(*Widget))
	widget.Status = WidgetStatus{Phase: "Ready", ObservedGeneration: widget.Generation}
	return ctrl.Result{}, r.Status().Patch(ctx, widget, before)
}
