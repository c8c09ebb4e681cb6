def get_assert(output, context):
    words = output.split()
    return {"pass": len(words) == 2, "score": len(words) / 2, "reason": f"{len(words)} words"}


def shorter(output, context):
    return len(output) < context["vars"]["most"]
