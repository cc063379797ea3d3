//! Lookup of a member's merge strategy in the schema.

use crate::{
    error::PatchError,
    schema::{Field, Form, SchemaId, Strategy, Table, Type},
};

#[derive(Clone, Copy)]
pub(super) struct Lookup<'t> {
    pub(super) table: &'t Table,
    pub(super) place: SchemaPosition<'t>,
}

#[derive(Clone, Copy)]
pub(super) enum SchemaPosition<'t> {
    Schema(SchemaId),
    Type(&'t Type),
}

pub(super) struct MergeRule<'t> {
    pub(super) below: Lookup<'t>,
    pub(super) strategy: Strategy,
    pub(super) merge_key: &'t str,
}

impl<'t> Lookup<'t> {
    /// The schema of member `name`, which is an object on both sides.
    pub(super) fn object(&self, name: &str) -> Result<MergeRule<'t>, PatchError> {
        let field = self.field(self.fields()?, name)?;
        let below = Lookup { table: self.table, place: SchemaPosition::Type(&field.element.ty) };
        Ok(MergeRule { below, strategy: field.strategy, merge_key: field.merge_key.as_deref().unwrap_or_default() })
    }

    /// The schema of the items of member `name`, which is a list on both sides.
    pub(super) fn list(&self, name: &str) -> Result<MergeRule<'t>, PatchError> {
        let found = self.object(name)?;
        match found.below.place {
            SchemaPosition::Type(Type::List { item, .. }) => {
                Ok(MergeRule { below: Lookup { table: self.table, place: SchemaPosition::Type(&item.ty) }, ..found })
            }
            SchemaPosition::Type(Type::Bytes | Type::Any) => Ok(found),
            SchemaPosition::Type(_) | SchemaPosition::Schema(_) => {
                Err(PatchError::Raw("expected slice or array type, but got: struct".to_owned()))
            }
        }
    }

    /// Returns the schema with the fields of this position.
    fn fields(&self) -> Result<SchemaId, PatchError> {
        let kind = match self.place {
            SchemaPosition::Schema(id) => return Ok(id),
            SchemaPosition::Type(Type::Schema { id, .. }) => return Ok(*id),
            SchemaPosition::Type(Type::Map { .. }) => "map",
            SchemaPosition::Type(Type::List { .. } | Type::Bytes) => "slice",
            SchemaPosition::Type(Type::Boolean) => "bool",
            SchemaPosition::Type(Type::Integer { bits: 32 }) => "int32",
            SchemaPosition::Type(Type::Integer { .. }) => "int64",
            SchemaPosition::Type(Type::Number) => "float64",
            SchemaPosition::Type(Type::String) => "string",
            SchemaPosition::Type(Type::Any) => "interface",
        };
        Err(PatchError::Raw(format!("merging an object in json but data type is not struct, instead is: {kind}")))
    }

    fn field(&self, id: SchemaId, name: &str) -> Result<&'t Field, PatchError> {
        let schema = self.table.get(id);
        schema.fields.get(name).filter(|_| schema.form == Form::Object).ok_or_else(|| {
            PatchError::Raw(format!(
                "unable to find api field in struct {} for the json field {name:?}",
                schema.short_name()
            ))
        })
    }
}
