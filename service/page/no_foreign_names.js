/**
 * Refuses `object[name]` where the object is a map by text: a name of someone else's, such as `__proto__`, would lead to
 * what the object inherits. `member` in `src/member.ts` reads such a member, and a `Map` takes any name.
 */

export default {
  meta: {
    type: "problem",
    schema: [],
    messages: { foreign: "read it with `member`, or use a `Map`: the name may be one that every object inherits" },
  },
  create(context) {
    const services = context.sourceCode.parserServices;
    const checker = services.program.getTypeChecker();
    return {
      MemberExpression(node) {
        if (!node.computed || node.property.type === "Literal") return;
        const type = checker.getNonNullableType(services.getTypeAtLocation(node.object));
        const parts = type.isUnion() ? type.types : [type];
        const isByText = parts.some((part) =>
          checker.getIndexInfosOfType(part).some((each) => each.keyType === checker.getStringType()),
        );
        if (isByText) context.report({ node, messageId: "foreign" });
      },
    };
  },
};
