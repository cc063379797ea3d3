package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/scale"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/pager"
	watchtools "k8s.io/client-go/tools/watch"
)

// dynamicClient uses a custom kind: discovery, mapping, pages, patches, scale, an informer.
func dynamicClient(ctx context.Context, w *world) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	group := w.namespace + ".example.com"
	crd, err := define(ctx, w, "gear", group, scaled(map[string]apiextensionsv1.JSONSchemaProps{
		"teeth":    {Type: "integer", Minimum: new(1.0)},
		"replicas": {Type: "integer"},
	}))
	if err != nil {
		return err
	}
	w.say("established: %s", crd.Name)

	documents, err := discovery.NewDiscoveryClientForConfig(w.config)
	if err != nil {
		return err
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(documents))
	var mapping *meta.RESTMapping
	err = until(ctx, "discovery knows the kind", func() (bool, error) {
		mapper.Reset()
		mapping, err = mapper.RESTMapping(schema.GroupKind{Group: group, Kind: "Gear"})
		if meta.IsNoMatchError(err) {
			return false, nil
		}
		return err == nil, err
	})
	if err != nil {
		return err
	}
	w.say("mapped: %s, %s", mapping.Resource.Resource, mapping.Scope.Name())
	kind, err := mapper.KindFor(schema.GroupVersionResource{Resource: "deployments"})
	w.say("deployments are %v, %v", kind, err)

	client, err := dynamic.NewForConfig(w.config)
	if err != nil {
		return err
	}
	gears := client.Resource(mapping.Resource).Namespace(w.namespace)
	factory := dynamicinformer.NewFilteredDynamicSharedInformerFactory(client, 0, w.namespace, nil)
	informer := factory.ForResource(mapping.Resource).Informer()
	heard := hear(informer)
	factory.Start(ctx.Done())
	cache.WaitForCacheSync(ctx.Done(), informer.HasSynced)

	for i := range 25 {
		gear := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": group + "/v1", "kind": "Gear",
			"metadata": map[string]any{"name": fmt.Sprintf("g%02d", i), "labels": map[string]any{"odd": fmt.Sprint(i%2 == 1)}},
			"spec":     map[string]any{"teeth": int64(i + 1), "replicas": int64(1), "unknown": "is pruned"},
		}}
		made, err := gears.Create(ctx, gear, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		if i == 0 {
			_, kept, _ := unstructured.NestedString(made.Object, "spec", "unknown")
			w.say("made: generation %d, unknown kept %t", made.GetGeneration(), kept)
		}
	}
	events, err := heard.wait(ctx, 25)
	if err != nil {
		return err
	}
	w.say("the informer: %s", summary(events))

	pages := 0
	p := pager.New(pager.SimplePageFunc(func(options metav1.ListOptions) (runtime.Object, error) {
		pages++
		return gears.List(ctx, options)
	}))
	p.PageSize = 10
	var names []string
	err = p.EachListItem(ctx, metav1.ListOptions{}, func(object runtime.Object) error {
		names = append(names, object.(*unstructured.Unstructured).GetName())
		return nil
	})
	w.say("in %d pages: %d, sorted %t, %v", pages, len(names), slices.IsSorted(names), err)
	odd, err := gears.List(ctx, metav1.ListOptions{LabelSelector: "odd=true"})
	if err != nil {
		return err
	}
	w.say("odd: %d, of kind %s", len(odd.Items), odd.GetKind())

	_, err = gears.Patch(ctx, "g00", types.MergePatchType, []byte(`{"spec":{"teeth":0}}`), metav1.PatchOptions{})
	w.say("refused: %t: %v", apierrors.IsInvalid(err), err)
	patched, err := gears.Patch(ctx, "g00", types.JSONPatchType, []byte(`[{"op":"replace","path":"/spec/teeth","value":99}]`), metav1.PatchOptions{})
	if err != nil {
		return err
	}
	w.say("patched: generation %d", patched.GetGeneration())
	stale := patched.DeepCopy()
	if err := unstructured.SetNestedField(patched.Object, "turning", "status", "phase"); err != nil {
		return err
	}
	patched, err = gears.UpdateStatus(ctx, patched, metav1.UpdateOptions{})
	if err != nil {
		return err
	}
	phase, _, _ := unstructured.NestedString(patched.Object, "status", "phase")
	w.say("status: %s, generation %d", phase, patched.GetGeneration())
	_, err = gears.Update(ctx, stale, metav1.UpdateOptions{})
	w.say("stale: %t: %v", apierrors.IsConflict(err), err)
	applied, err := gears.Apply(ctx, "g99", &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": group + "/v1", "kind": "Gear", "metadata": map[string]any{"name": "g99"}, "spec": map[string]any{"teeth": int64(5)},
	}}, metav1.ApplyOptions{FieldManager: "dynamic"})
	if err != nil {
		return err
	}
	w.say("applied: %s by %s", applied.GetName(), applied.GetManagedFields()[0].Manager)

	scales, err := scale.NewForConfig(w.config, mapper, dynamic.LegacyAPIPathResolverFunc, scale.NewDiscoveryScaleKindResolver(documents))
	if err != nil {
		return err
	}
	scaledTo, err := scales.Scales(w.namespace).Get(ctx, mapping.Resource.GroupResource(), "g00", metav1.GetOptions{})
	if err != nil {
		return err
	}
	scaledTo.Spec.Replicas = 4
	var after *autoscalingv1.Scale
	if after, err = scales.Scales(w.namespace).Update(ctx, mapping.Resource.GroupResource(), scaledTo, metav1.UpdateOptions{}); err != nil {
		return err
	}
	w.say("scaled: %d", after.Spec.Replicas)

	// Up to an event of another client; then all are deleted, and the watch delivers that.
	if _, err := heard.wait(ctx, 4); err != nil {
		return err
	}
	err = gears.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "odd"})
	if err != nil {
		return err
	}
	events, err = heard.wait(ctx, 25)
	if err != nil {
		return err
	}
	w.say("after the collection was deleted: %s, %d left", summary(events), len(informer.GetStore().ListKeys()))

	// Deleting the definition deletes the kind and its objects.
	definitions, err := apiextensions.NewForConfig(w.config)
	if err != nil {
		return err
	}
	if err := definitions.ApiextensionsV1().CustomResourceDefinitions().Delete(ctx, crd.Name, metav1.DeleteOptions{}); err != nil {
		return err
	}
	if events, err = heard.wait(ctx, 1); err != nil {
		return err
	}
	w.say("after the definition was deleted: %s", strings.Join(events, ", "))
	return until(ctx, "nobody knows the kind", func() (bool, error) {
		_, err := gears.List(ctx, metav1.ListOptions{})
		if apierrors.IsNotFound(err) {
			w.say("a list of what is not known: %v", err)
			return true, nil
		}
		return false, nil
	})
}

// define creates a CRD of one version and waits until it is established.
func define(ctx context.Context, w *world, singular, group string, version apiextensionsv1.CustomResourceDefinitionVersion) (*apiextensionsv1.CustomResourceDefinition, error) {
	client, err := apiextensions.NewForConfig(w.config)
	if err != nil {
		return nil, err
	}
	definitions := client.ApiextensionsV1().CustomResourceDefinitions()
	kind := strings.ToUpper(singular[:1]) + singular[1:]
	crd := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: singular + "s." + group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group:    group,
			Scope:    apiextensionsv1.NamespaceScoped,
			Names:    apiextensionsv1.CustomResourceDefinitionNames{Plural: singular + "s", Singular: singular, Kind: kind, ListKind: kind + "List"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{version},
		},
	}
	made, err := definitions.Create(ctx, crd, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	watcher := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.FieldSelector = "metadata.name=" + made.Name
			return definitions.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.FieldSelector = "metadata.name=" + made.Name
			return definitions.Watch(ctx, options)
		},
	}
	event, err := watchtools.UntilWithSync(ctx, watcher, &apiextensionsv1.CustomResourceDefinition{}, nil, func(event watch.Event) (bool, error) {
		crd, is := event.Object.(*apiextensionsv1.CustomResourceDefinition)
		if !is {
			return false, nil
		}
		return slices.ContainsFunc(crd.Status.Conditions, func(c apiextensionsv1.CustomResourceDefinitionCondition) bool {
			return c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue
		}), nil
	})
	if err != nil {
		return nil, fmt.Errorf("%s is not established: %w", made.Name, err)
	}
	return event.Object.(*apiextensionsv1.CustomResourceDefinition), nil
}

// scaled returns a version v1 with these fields in its spec, with status and scale.
func scaled(spec map[string]apiextensionsv1.JSONSchemaProps) apiextensionsv1.CustomResourceDefinitionVersion {
	return apiextensionsv1.CustomResourceDefinitionVersion{
		Name: "v1", Served: true, Storage: true,
		Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
			Type: "object",
			Properties: map[string]apiextensionsv1.JSONSchemaProps{
				"spec": {Type: "object", Properties: spec},
				"status": {Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
					"phase": {Type: "string"}, "replicas": {Type: "integer"}, "observedGeneration": {Type: "integer"},
				}},
			},
		}},
		Subresources: &apiextensionsv1.CustomResourceSubresources{
			Status: &apiextensionsv1.CustomResourceSubresourceStatus{},
			Scale:  &apiextensionsv1.CustomResourceSubresourceScale{SpecReplicasPath: ".spec.replicas", StatusReplicasPath: ".status.replicas"},
		},
	}
}
