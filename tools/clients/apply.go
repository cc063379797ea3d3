package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	appsapply "k8s.io/client-go/applyconfigurations/apps/v1"
	autoscalingapply "k8s.io/client-go/applyconfigurations/autoscaling/v1"
	coreapply "k8s.io/client-go/applyconfigurations/core/v1"
	metaapply "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// serverSideApply lets several managers apply one Deployment with client-go's typed configurations.
func serverSideApply(ctx context.Context, w *world) error {
	client, err := kubernetes.NewForConfig(w.protobuf())
	if err != nil {
		return err
	}
	deployments := client.AppsV1().Deployments(w.namespace)
	labels := map[string]string{"app": "web"}
	config := func(image string) *appsapply.DeploymentApplyConfiguration {
		return appsapply.Deployment("web", w.namespace).WithLabels(labels).WithSpec(appsapply.DeploymentSpec().
			WithSelector(metaapply.LabelSelector().WithMatchLabels(labels)).
			WithTemplate(coreapply.PodTemplateSpec().WithLabels(labels).WithSpec(coreapply.PodSpec().WithContainers(
				coreapply.Container().WithName("web").WithImage(image).
					WithPorts(coreapply.ContainerPort().WithContainerPort(80).WithProtocol(corev1.ProtocolTCP))))))
	}
	with := func(manager string) metav1.ApplyOptions { return metav1.ApplyOptions{FieldManager: manager} }
	tell := func(what string, d *appsv1.Deployment, err error) error {
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		container := d.Spec.Template.Spec.Containers[0]
		w.say("%s: generation %d, replicas %d, image %s, env %d, managers %s", what, d.Generation, *d.Spec.Replicas, container.Image, len(container.Env), managers(d))
		return nil
	}

	d, err := deployments.Apply(ctx, config("web:1"), with("one"))
	if err := tell("created", d, err); err != nil {
		return err
	}
	first := d.ResourceVersion
	d, err = deployments.Apply(ctx, config("web:1"), with("one"))
	if err := tell("the same again", d, err); err != nil {
		return err
	}
	w.say("the same revision: %t", first == d.ResourceVersion)

	replicas := appsapply.Deployment("web", w.namespace).WithSpec(appsapply.DeploymentSpec().WithReplicas(3))
	d, err = deployments.Apply(ctx, replicas, with("two"))
	if err := tell("another owns the replicas", d, err); err != nil {
		return err
	}
	_, err = deployments.Apply(ctx, config("web:1").WithSpec(config("web:1").Spec.WithReplicas(5)), with("one"))
	w.say("conflict: %t: %v", apierrors.IsConflict(err), err)
	for _, cause := range causes(err) {
		w.say("cause: %s", cause)
	}
	forced := with("one")
	forced.Force = true
	d, err = deployments.Apply(ctx, config("web:1").WithSpec(config("web:1").Spec.WithReplicas(5)), forced)
	if err := tell("forced", d, err); err != nil {
		return err
	}

	// A list item, identified by its key, of another owner.
	env := appsapply.Deployment("web", w.namespace).WithSpec(appsapply.DeploymentSpec().WithTemplate(coreapply.PodTemplateSpec().
		WithSpec(coreapply.PodSpec().WithContainers(coreapply.Container().WithName("web").WithEnv(coreapply.EnvVar().WithName("A").WithValue("b"))))))
	d, err = deployments.Apply(ctx, env, with("three"))
	if err := tell("an environment from a third", d, err); err != nil {
		return err
	}
	d, err = deployments.Apply(ctx, config("web:2"), with("one"))
	if err := tell("replicas are dropped, the image changes", d, err); err != nil {
		return err
	}

	// Fields of the own manager can be extracted, changed and applied again.
	own, err := appsapply.ExtractDeployment(d, "one")
	if err != nil {
		return err
	}
	w.say("own: image %s, env %d, replicas set %t", *own.Spec.Template.Spec.Containers[0].Image, len(own.Spec.Template.Spec.Containers[0].Env), own.Spec.Replicas != nil)
	own.Spec.Template.Spec.Containers[0].WithImage("web:3")
	d, err = deployments.Apply(ctx, own, with("one"))
	if err := tell("taken out, changed, applied", d, err); err != nil {
		return err
	}

	// Subresources have separate owners.
	d, err = deployments.ApplyStatus(ctx, appsapply.Deployment("web", w.namespace).WithStatus(appsapply.DeploymentStatus().WithReplicas(1).WithObservedGeneration(d.Generation)), with("status"))
	if err := tell("status", d, err); err != nil {
		return err
	}
	w.say("status: replicas %d", d.Status.Replicas)
	// The default of replicas has an owner.
	scaler := with("scaler")
	scaler.Force = true
	scale, err := deployments.ApplyScale(ctx, "web", autoscalingapply.Scale().WithName("web").WithNamespace(w.namespace).WithSpec(autoscalingapply.ScaleSpec().WithReplicas(7)), scaler)
	if err != nil {
		return fmt.Errorf("scale: %w", err)
	}
	w.say("scale: kind %s, replicas %d, selector %s", kindOf(scale), scale.Spec.Replicas, scale.Status.Selector)

	d, err = deployments.Apply(ctx, appsapply.Deployment("web", w.namespace), with("three"))
	if err := tell("the third lets go", d, err); err != nil {
		return err
	}
	dry := with("one")
	dry.DryRun, dry.Force = []string{metav1.DryRunAll}, true
	dried, err := deployments.Apply(ctx, config("web:9").WithSpec(config("web:9").Spec.WithReplicas(9)), dry)
	if err := tell("dry run", dried, err); err != nil {
		return err
	}
	d, err = deployments.Get(ctx, "web", metav1.GetOptions{})
	if err := tell("at the end", d, err); err != nil {
		return err
	}
	_, err = deployments.Apply(ctx, appsapply.Deployment("bad", w.namespace).WithSpec(appsapply.DeploymentSpec().WithReplicas(1)), with("one"))
	w.say("invalid: %t: %v", apierrors.IsInvalid(err), err)
	return nil
}

func managers(d *appsv1.Deployment) string {
	var names []string
	for _, entry := range d.ManagedFields {
		name := entry.Manager + " " + string(entry.Operation)
		if entry.Subresource != "" {
			name += " of " + entry.Subresource
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return "[" + strings.Join(names, "; ") + "]"
}

func causes(err error) []string {
	status, is := err.(apierrors.APIStatus)
	if !is || status.Status().Details == nil {
		return nil
	}
	var found []string
	for _, cause := range status.Status().Details.Causes {
		found = append(found, fmt.Sprintf("%s %s: %s", cause.Type, cause.Field, cause.Message))
	}
	slices.Sort(found)
	return found
}

func kindOf(scale *autoscalingv1.Scale) string { return fmt.Sprintf("%T", scale) }
