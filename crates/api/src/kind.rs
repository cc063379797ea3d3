//! Declaration of kinds: one root type with `metadata` and its fields, and the names that the API machinery needs.
//!
//! It replaces `kube-derive`, whose root types need a spec struct of their own each: our namespaced and cluster-scoped
//! twins share one spec type, and some kinds have no `spec`.

/// Declares a root type. Fields before the semicolon are required; those after it are omitted when `None`.
macro_rules! kind {
    (
        $(#[doc = $doc:literal])*
        $name:ident: $group:literal, $version:literal, $plural:literal, $scope:ident
        { $( $req:ident: $rty:ty ),* $(; $( $opt:ident: $oty:ty ),+ )? }
    ) => {
        $(#[doc = $doc])*
        #[derive(Clone, Debug, Default, PartialEq, serde::Deserialize)]
        pub struct $name {
            /// Standard object metadata.
            #[serde(default)]
            pub metadata: k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta,
            $(
                #[doc = concat!("The object's `", stringify!($req), "`.")]
                pub $req: $rty,
            )*
            $($(
                #[doc = concat!("The object's `", stringify!($opt), "`, if it has one.")]
                #[serde(default)]
                pub $opt: Option<$oty>,
            )+)?
        }

        impl $name {
            /// An object with this name and the required fields.
            pub fn new(name: &str $(, $req: $rty)*) -> Self {
                Self {
                    metadata: k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                        name: Some(name.to_owned()),
                        ..Default::default()
                    },
                    $($req,)*
                    $($($opt: None,)+)?
                }
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                use serde::ser::SerializeMap;
                let mut object = serializer.serialize_map(None)?;
                object.serialize_entry("apiVersion", concat!($group, "/", $version))?;
                object.serialize_entry("kind", stringify!($name))?;
                object.serialize_entry("metadata", &self.metadata)?;
                $(object.serialize_entry(stringify!($req), &self.$req)?;)*
                $($(
                    if let Some(member) = &self.$opt {
                        object.serialize_entry(stringify!($opt), member)?;
                    }
                )+)?
                object.end()
            }
        }

        impl kube_core::Resource for $name {
            type DynamicType = ();
            type Scope = crate::kind::kind!(@scope $scope);

            fn kind(_: &()) -> std::borrow::Cow<'_, str> {
                stringify!($name).into()
            }

            fn group(_: &()) -> std::borrow::Cow<'_, str> {
                $group.into()
            }

            fn version(_: &()) -> std::borrow::Cow<'_, str> {
                $version.into()
            }

            fn plural(_: &()) -> std::borrow::Cow<'_, str> {
                $plural.into()
            }

            fn meta(&self) -> &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                &self.metadata
            }

            fn meta_mut(&mut self) -> &mut k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                &mut self.metadata
            }
        }

        ironclad_kinds::objects! { $name }

        #[cfg(feature = "schema")]
        impl crate::schema::Kind for $name {
            const DESCRIPTION: &'static str = concat!($($doc),*);
            const INFO: crate::schema::KindInfo = crate::schema::KindInfo {
                group: $group,
                version: $version,
                kind: stringify!($name),
                plural: $plural,
                scope: crate::schema::Scope::$scope,
            };
            const MEMBERS: &'static [crate::schema::Member] = &[
                $(crate::schema::Member {
                    name: stringify!($req),
                    required: true,
                    schema: |generator| generator.subschema_for::<$rty>(),
                },)*
                $($(crate::schema::Member {
                    name: stringify!($opt),
                    required: false,
                    schema: |generator| generator.subschema_for::<$oty>(),
                },)+)?
            ];
        }

        $(crate::kind::kind!(@has $name $req $rty);)*
        $($(crate::kind::kind!(@may $name $opt $oty);)+)?
    };

    (@scope Namespaced) => { kube_core::NamespaceResourceScope };
    (@scope Cluster) => { kube_core::ClusterResourceScope };

    (@has $name:ident spec $ty:ty) => {
        impl kube_core::object::HasSpec for $name {
            type Spec = $ty;

            fn spec(&self) -> &$ty {
                &self.spec
            }

            fn spec_mut(&mut self) -> &mut $ty {
                &mut self.spec
            }
        }
    };
    (@has $name:ident $other:ident $ty:ty) => {};

    (@may $name:ident status $ty:ty) => {
        impl kube_core::object::HasStatus for $name {
            type Status = $ty;

            fn status(&self) -> Option<&$ty> {
                self.status.as_ref()
            }

            fn status_mut(&mut self) -> &mut Option<$ty> {
                &mut self.status
            }
        }
    };
    (@may $name:ident $other:ident $ty:ty) => {};
}
pub(crate) use kind;
