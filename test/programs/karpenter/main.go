// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Command karpenter makes one scheduling decision as Karpenter does, with Karpenter's own code: its controller of
// NodeOverlays evaluates those of the API server, and its provisioner simulates nodes for the pods that wait. It prints
// the decision, and launches nothing.
//
// The arguments are the instance types, each as TYPE=PODS with the most pods that the type runs.
package main

import (
	"context"
	"encoding/json"
	"log"
	"os"
	"slices"
	"strings"

	"github.com/awslabs/operatorpkg/status"
	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	kwok "sigs.k8s.io/karpenter/kwok/apis/v1alpha1"
	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/apis/v1alpha1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/cloudprovider/overlay"
	"sigs.k8s.io/karpenter/pkg/controllers/dynamicresources/deviceallocation"
	"sigs.k8s.io/karpenter/pkg/controllers/nodeoverlay"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
	"sigs.k8s.io/karpenter/pkg/events"
	"sigs.k8s.io/karpenter/pkg/operator/options"
	"sigs.k8s.io/karpenter/pkg/scheduling"
	"sigs.k8s.io/karpenter/pkg/state/virtualpods"
)

// decision is what the program prints.
type decision struct {
	// Nodes are those that Karpenter would launch.
	Nodes []node `json:"nodes"`
	// Refused has the error of each pod for which it would launch none.
	Refused map[string]string `json:"refused"`
	// Overlays has the condition Ready of each NodeOverlay, "True" or its reason.
	Overlays map[string]string `json:"overlays"`
}

type node struct {
	NodePool string   `json:"nodePool"`
	Types    []string `json:"types"`
	Pods     []string `json:"pods"`
}

func main() {
	log.SetFlags(0)
	ctrllog.SetLogger(funcr.New(func(_, said string) { log.Print(said) }, funcr.Options{Verbosity: 1}))
	made, err := decide(context.Background(), os.Args[1:])
	if err != nil {
		log.Fatal(err)
	}
	if err := json.NewEncoder(os.Stdout).Encode(made); err != nil {
		log.Fatal(err)
	}
}

func decide(ctx context.Context, types []string) (decision, error) {
	api, err := connect()
	if err != nil {
		return decision{}, err
	}
	if err := readyPools(ctx, api); err != nil {
		return decision{}, err
	}
	cloud := &provider{}
	for _, t := range types {
		name, pods, _ := strings.Cut(t, "=")
		cloud.types = append(cloud.types, instanceType(name, pods))
	}
	ctx = options.ToContext(ctx, &options.Options{
		CPURequests: 1000, PreferencePolicy: options.PreferencePolicyRespect, MinValuesPolicy: options.MinValuesPolicyStrict,
		IgnoreDRARequests: true, FeatureGates: options.FeatureGates{NodeOverlay: true},
	})
	store := nodeoverlay.NewInstanceTypeStore()
	decorated := overlay.Decorate(cloud, api, store)
	clk := clock.RealClock{}
	cluster := state.NewCluster(clk, api, decorated)
	overlays := nodeoverlay.NewController(clk, api, cloud, store, cluster)
	if _, err := overlays.Reconcile(ctx, reconcile.Request{}); err != nil {
		return decision{}, err
	}
	recorder := events.NewRecorder(record.NewFakeRecorder(1000))
	provisioner := provisioning.NewProvisioner(api, recorder, decorated, cluster, clk, deviceallocation.NewController(api),
		virtualpods.NewVirtualPodCache(api))
	results, err := provisioner.Schedule(ctx)
	if err != nil {
		return decision{}, err
	}
	made := decision{Nodes: []node{}, Refused: map[string]string{}, Overlays: map[string]string{}}
	for _, claim := range results.NewNodeClaims {
		n := node{NodePool: claim.NodePoolName}
		for _, it := range claim.InstanceTypeOptions {
			n.Types = append(n.Types, it.Name)
		}
		for _, pod := range claim.Pods {
			n.Pods = append(n.Pods, pod.Name)
		}
		slices.Sort(n.Types)
		slices.Sort(n.Pods)
		made.Nodes = append(made.Nodes, n)
	}
	for pod, err := range results.PodErrors {
		made.Refused[pod.Name] = err.Error()
	}
	var evaluated v1alpha1.NodeOverlayList
	if err := api.List(ctx, &evaluated); err != nil {
		return decision{}, err
	}
	for _, o := range evaluated.Items {
		made.Overlays[o.Name] = "True"
		if c := o.StatusConditions().Get(v1alpha1.ConditionTypeValidationSucceeded); !c.IsTrue() {
			made.Overlays[o.Name] = c.Reason + ": " + c.Message
		}
	}
	return made, nil
}

// connect returns a client of the API server in the environment, for all kinds of the simulation.
func connect() (client.Client, error) {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return nil, err
	}
	kind := schema.GroupVersionKind{Group: "karpenter.k8s.aws", Version: "v1", Kind: "EC2NodeClass"}
	scheme.Scheme.AddKnownTypeWithName(kind, &ec2NodeClass{})
	return client.New(config, client.Options{Scheme: scheme.Scheme})
}

// readyPools reports the NodePools as ready, as Karpenter's controllers of them do once the node class exists.
func readyPools(ctx context.Context, api client.Client) error {
	var pools v1.NodePoolList
	if err := api.List(ctx, &pools); err != nil {
		return err
	}
	for i := range pools.Items {
		for _, condition := range []string{v1.ConditionTypeValidationSucceeded, v1.ConditionTypeNodeClassReady} {
			pools.Items[i].StatusConditions().SetTrue(condition)
		}
		if err := api.Status().Update(ctx, &pools.Items[i]); err != nil {
			return err
		}
	}
	return nil
}

// ec2NodeClass has the kind of the node class of Karpenter's provider for AWS, whose fields no decision here reads.
type ec2NodeClass struct{ kwok.KWOKNodeClass }

// provider has instance types, and launches nothing.
type provider struct {
	cloudprovider.CloudProvider
	types []*cloudprovider.InstanceType
}

func (p *provider) Name() string { return "test" }

func (p *provider) GetSupportedNodeClasses() []status.Object {
	return []status.Object{&ec2NodeClass{}}
}

func (p *provider) GetInstanceTypes(context.Context, *v1.NodePool) ([]*cloudprovider.InstanceType, error) {
	return p.types, nil
}

// instanceType returns a type whose nodes each pool can launch in two zones. Karpenter's provider for AWS gives a type
// the same labels, and more.
func instanceType(name, pods string) *cloudprovider.InstanceType {
	var offerings cloudprovider.Offerings
	zones := []string{"us-east-1a", "us-east-1b"}
	for _, zone := range zones {
		labels := map[string]string{v1.CapacityTypeLabelKey: v1.CapacityTypeOnDemand, corev1.LabelTopologyZone: zone}
		offerings = append(offerings, &cloudprovider.Offering{
			Available: true, Price: 1, Requirements: scheduling.NewLabelRequirements(labels),
		})
	}
	return &cloudprovider.InstanceType{
		Name: name,
		Requirements: scheduling.NewRequirements(
			scheduling.NewRequirement(corev1.LabelInstanceTypeStable, corev1.NodeSelectorOpIn, name),
			scheduling.NewRequirement(corev1.LabelArchStable, corev1.NodeSelectorOpIn, v1.ArchitectureAmd64),
			scheduling.NewRequirement(corev1.LabelOSStable, corev1.NodeSelectorOpIn, string(corev1.Linux)),
			scheduling.NewRequirement(corev1.LabelTopologyZone, corev1.NodeSelectorOpIn, zones...),
			scheduling.NewRequirement(v1.CapacityTypeLabelKey, corev1.NodeSelectorOpIn, v1.CapacityTypeOnDemand),
		),
		Offerings: offerings,
		Overhead:  &cloudprovider.InstanceTypeOverhead{},
		Capacity: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourceMemory: resource.MustParse("32Gi"),
			corev1.ResourcePods: resource.MustParse(pods),
		},
	}
}
